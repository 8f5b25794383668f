# Completion of tenon for fish.

function __tenon_names
    for path in /dev/shm/tenon-* /dev/shm/torch_*
        string replace /dev/shm/ / -- $path
    end
end

set -l commands doctor ls top gc inspect verify export convert weights bench

complete -c tenon -f
complete -c tenon -s h -l help -d 'Print help'
complete -c tenon -l color -x -a 'auto always never' -d Colours
complete -c tenon -n __fish_use_subcommand -l version -d 'Print the version'
complete -c tenon -n __fish_use_subcommand -a doctor -d 'Say what this machine and this process limit'
complete -c tenon -n __fish_use_subcommand -a ls -d 'List the named objects of Tenon and PyTorch, arenas, leases and queues'
complete -c tenon -n __fish_use_subcommand -a top -d 'Show who lends how much, and what moves through queues'
complete -c tenon -n __fish_use_subcommand -a gc -d 'Remove the names that nobody holds'
complete -c tenon -n __fish_use_subcommand -a inspect -d 'Show what a module, a package, a file of weights, a descriptor or a named file holds'
complete -c tenon -n __fish_use_subcommand -a verify -d 'Check every byte of modules, packages and files of weights'
complete -c tenon -n __fish_use_subcommand -a export -d 'Write a module again, or write several into a package'
complete -c tenon -n __fish_use_subcommand -a convert -d 'Write the weights of a file as safetensors, torch.save or NumPy'
complete -c tenon -n __fish_use_subcommand -a weights -d 'List the weights that processes share by a name, keep or drop them'
complete -c tenon -n __fish_use_subcommand -a bench -d 'Measure lends between two processes'
complete -c tenon -n "__fish_seen_subcommand_from $commands" -l json -d 'Print JSON'
complete -c tenon -n '__fish_seen_subcommand_from doctor ls gc' -a '(__fish_complete_directories)'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l all -d 'Also other users\' names, and names of other programs'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l names -d 'Only the names'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l arenas -d 'Only the arenas'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l leases -d 'Only the leases'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l queues -d 'Only the queues and their members'
complete -c tenon -n '__fish_seen_subcommand_from ls' -l prometheus -d 'Print arenas, leases and queues for Prometheus'
complete -c tenon -n '__fish_seen_subcommand_from top' -l interval -x -d 'Seconds between two looks'
complete -c tenon -n '__fish_seen_subcommand_from top' -l once -d 'Show it once'
complete -c tenon -n '__fish_seen_subcommand_from gc' -l yes -d 'Remove them'
complete -c tenon -n '__fish_seen_subcommand_from gc' -l torch -d 'PyTorch\'s own files too'
complete -c tenon -n '__fish_seen_subcommand_from gc' -l min-age -x -d 'PyTorch\'s files younger than this stay'
complete -c tenon -n '__fish_seen_subcommand_from inspect' -F -a '(__tenon_names)'
complete -c tenon -n '__fish_seen_subcommand_from inspect' -l code -d 'Print the code of a module, too'
complete -c tenon -n '__fish_seen_subcommand_from inspect' -l ops -d 'List the operators that bytecode calls'
complete -c tenon -n '__fish_seen_subcommand_from inspect' -l module -x -d 'The module of a package that is shown'
complete -c tenon -n '__fish_seen_subcommand_from inspect' -l methods -x -d 'The methods whose operators are listed'
complete -c tenon -n '__fish_seen_subcommand_from verify' -F
complete -c tenon -n '__fish_seen_subcommand_from export' -F
complete -c tenon -n '__fish_seen_subcommand_from export' -l bytecode -d 'Make bytecode from the code'
complete -c tenon -n '__fish_seen_subcommand_from export' -l no-bytecode -d 'Write no bytecode'
complete -c tenon -n '__fish_seen_subcommand_from export' -l methods -x -d 'The methods that get bytecode'
complete -c tenon -n '__fish_seen_subcommand_from export' -l lower -x -a '4 5 6 7 8' -d 'The version of the bytecode'
complete -c tenon -n '__fish_seen_subcommand_from export' -l forks-at-once -d 'Run a forked function where fork stands'
complete -c tenon -n '__fish_seen_subcommand_from export' -l flatbuffer -d 'Write the flatbuffer form'
complete -c tenon -n '__fish_seen_subcommand_from export' -l debug-tables -d 'Write the debug tables, too'
complete -c tenon -n '__fish_seen_subcommand_from export' -l package -d 'Write all files into one package'
complete -c tenon -n '__fish_seen_subcommand_from export' -l module -x -d 'The module of a package that is written'
complete -c tenon -n '__fish_seen_subcommand_from convert' -F
complete -c tenon -n '__fish_seen_subcommand_from convert' -l form -x -a 'safetensors torch npz' -d 'The form of the new file'
complete -c tenon -n '__fish_seen_subcommand_from convert' -l duplicate-shared -d 'Write tensors that share memory whole'
complete -c tenon -n '__fish_seen_subcommand_from convert' -l skip -d 'Leave out what the new file cannot have'
complete -c tenon -n '__fish_seen_subcommand_from weights' -F -a 'ls keep drop switch'
complete -c tenon -n '__fish_seen_subcommand_from weights' -l directory -x -a '(__fish_complete_directories)' -d 'Where the processes meet'
complete -c tenon -n '__fish_seen_subcommand_from weights' -l group -x -a '(__fish_complete_groups)' -d 'Admit members of this group'
complete -c tenon -n '__fish_seen_subcommand_from weights' -l device -x -a 'cpu cuda:0' -d 'Where the weights lie'
complete -c tenon -n '__fish_seen_subcommand_from weights' -l budget -x -d 'Load nothing beyond this size of all weights'
complete -c tenon -n '__fish_seen_subcommand_from weights' -l timeout -x -d 'Seconds in which keepers must end'
complete -c tenon -n '__fish_seen_subcommand_from bench' -l quick -d 'Fewer rounds'
