// The program `tenon`: reads the command line and calls the subcommand.
#include <tenon/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.h"
#include "names/filename.h"
#include "output.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string colour = "auto";
  DoctorOptions doctor;
  LsOptions ls;
  TopOptions top;
  GcOptions gc;
  InspectOptions inspect;
  VerifyOptions verify;
  ExportCommandOptions export_;
  ConvertOptions convert;
  WeightsOptions weights;
  BenchOptions bench;
};

void add_colour(CLI::App* app, Options* options) {
  app->add_option("--color", options->colour,
                  "Colours: auto (on a terminal, unless NO_COLOR is set), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->option_text("WHEN");
}

ColourWish wish_of(const std::string& word) {
  return word == "always"  ? ColourWish::kAlways
         : word == "never" ? ColourWish::kNever
                           : ColourWish::kAuto;
}

std::string check_seconds(const std::string& text, double least) {
  constexpr double kMost = 1e9;  // 30 years
  double seconds = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds >= least &&
      seconds <= kMost)
    return {};
  return "'" + text + format("' is no number of seconds from %g to 1000000000", least);
}

std::string check_methods(const std::string& text) {
  if (!text.empty() && text.front() != ',' && text.back() != ',' &&
      text.find(",,") == std::string::npos)
    return {};
  return "'" + text +
         "' has an empty name; write names of methods with commas between them, such as "
         "forward,predict";
}

std::string check_name(const std::string& text) {
  return text.empty() ? "the name is empty" : std::string();
}

// Takes the last of the files, which is the one to write.
void take_output(ExportCommandOptions* options) {
  std::vector<std::string>& files = options->from;
  if (files.size() < 2)
    throw CLI::ValidationError("the new file is missing: write tenon export IN OUT");
  options->to = std::move(files.back());
  files.pop_back();
  if (options->to == "-") throw CLI::ValidationError("OUT must be a file, not standard output");
  if (files.size() > 1 && !options->package) {
    throw CLI::ValidationError(
        format("there are %zu files to read and one to write: give --package to write them into "
               "one package, or "
               "export them one by one",
               files.size()));
  }
}

// Gives the path as messages and handles have it: absolute, without a slash at its end.
std::string directory_of(const std::string& text) {
  std::string path = std::filesystem::absolute(text).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

CLI::App* add_command(CLI::App* app, Options* options, const char* name, const char* what,
                      const char* example, bool* json) {
  CLI::App* command = app->add_subcommand(name, what);
  command->set_help_flag("-h,--help", "Print this help");
  command->add_flag("--json", *json, "Print JSON");
  add_colour(command, options);
  command->footer(std::string("Example:\n  ") + example);
  return command;
}

void add_directory(CLI::App* command, std::string* directory) {
  *directory = names::kSharedMemory;
  command->add_option("DIRECTORY", *directory, "Where the names are, /dev/shm unless told")
      ->option_text(" ");
}

// `tenon weights ls` takes a directory where the other actions take a name.
void check_weights(WeightsOptions* options) {
  const bool is_ls = options->action == "ls";
  if (!is_ls && options->name.empty())
    throw CLI::ValidationError("the name is missing: write tenon weights " + options->action +
                               " NAME");
  const bool is_switch = options->action == "switch";
  const bool takes_file = is_switch || options->action == "keep";
  if (!takes_file && !options->file.empty())
    throw CLI::ValidationError("only tenon weights keep and switch take a FILE");
  if (!takes_file && !options->group.empty())
    throw CLI::ValidationError("only tenon weights keep and switch take a --group");
  if (is_ls && options->device != "cpu")
    throw CLI::ValidationError(
        "tenon weights ls shows the weights of all devices: leave out "
        "--device");
  if (!takes_file && options->budget != 0)
    throw CLI::ValidationError("only tenon weights keep and switch take a --budget");
  if (is_switch && options->file.empty())
    throw CLI::ValidationError("the file is missing: write tenon weights switch NAME FILE");
  if (!is_ls || options->name.empty()) return;
  if (!options->directory.empty())
    throw CLI::ValidationError("there are two directories: leave out one");
  options->directory = std::move(options->name);
  options->name.clear();
}

void add_weights(CLI::App* app, Options* options) {
  WeightsOptions& given = options->weights;
  CLI::App* weights =
      add_command(app, options, "weights",
                  "List the weights that processes share by a name, keep them in memory, drop "
                  "them, or switch to a new version",
                  "tenon weights keep llama model.safetensors", &given.json);
  weights
      ->add_option("ACTION", given.action,
                   "ls lists them, with who has them; keep holds the weights of NAME until it is "
                   "ended, and loads FILE if no process has them; drop ends the keepers of NAME; "
                   "switch publishes FILE as the next version of NAME, and ends when another "
                   "process has that version")
      ->required()
      ->check(CLI::IsMember({"ls", "keep", "drop", "switch"}))
      ->option_text(" ");
  weights->add_option("NAME", given.name, "The name; for ls, the directory instead")
      ->option_text(" ");
  weights
      ->add_option("FILE", given.file,
                   "For keep and switch: the file; keep only attaches without it")
      ->option_text(" ");
  weights
      ->add_option("--directory", given.directory,
                   "Where the processes meet, /dev/shm/tenon-weights-UID unless told")
      ->option_text("DIRECTORY");
  weights
      ->add_option("--group", given.group,
                   "For keep and switch: admit members of this group too; it needs --directory")
      ->check(check_name)
      ->option_text("GROUP");
  weights
      ->add_option("--device", given.device,
                   "For keep, switch and drop: the device in whose memory the weights lie, cpu "
                   "unless told; cuda:0 is the first GPU")
      ->option_text("DEVICE");
  weights
      ->add_option("--budget", given.budget,
                   "For keep and switch: load nothing if all weights in the directory would then "
                   "have more bytes, such as 8G")
      ->transform(CLI::AsSizeValue(false))
      ->option_text("SIZE");
  weights
      ->add_option("--timeout", given.timeout,
                   "For drop: the seconds in which the keepers must end, 10 unless told")
      ->check([](const std::string& text) { return check_seconds(text, 0); })
      ->option_text("SECONDS");
  weights->final_callback([&given] { check_weights(&given); });
}

void add_commands(CLI::App* app, Options* options) {
  CLI::App* doctor = add_command(app, options, "doctor",
                                 "Say what this machine and this process limit, and what to change",
                                 "tenon doctor", &options->doctor.json);
  add_directory(doctor, &options->doctor.directory);

  CLI::App* ls = add_command(
      app, options, "ls",
      "List the named objects of Tenon and PyTorch, arenas, leases and queues, and who holds them",
      "tenon ls --leases", &options->ls.json);
  add_directory(ls, &options->ls.directory);
  ls->add_flag("--names", options->ls.names,
               "Only the names; so it is, too, if a directory is given");
  ls->add_flag("--arenas", options->ls.arenas, "Only the arenas");
  ls->add_flag("--leases", options->ls.leases, "Only the leases");
  ls->add_flag("--queues", options->ls.queues, "Only the queues and their members");
  ls->add_flag("--all", options->ls.all, "Also other users' names, and names of other programs");
  ls->add_flag("--prometheus", options->ls.prometheus,
               "Print arenas, leases and queues in Prometheus' text format")
      ->excludes("--json");

  CLI::App* top = add_command(
      app, options, "top",
      "Show who lends how much, and what moves through queues, again and again; q ends it",
      "tenon top --interval 5", &options->top.json);
  top->add_option("--interval", options->top.interval, "Seconds between two looks, 1 unless told")
      ->check([](const std::string& text) { return check_seconds(text, 0.1); })
      ->option_text("SECONDS");
  top->add_flag("--once", options->top.once, "Show it once, after one interval");

  CLI::App* gc = add_command(app, options, "gc",
                             "Remove the names that nobody holds; without --yes only say which",
                             "tenon gc --torch --yes", &options->gc.json);
  add_directory(gc, &options->gc.directory);
  gc->add_flag("--yes", options->gc.yes, "Remove them");
  gc->add_flag("--torch", options->gc.torch, "PyTorch's own files too, if their maker is gone");
  gc->add_option("--min-age", options->gc.min_age,
                 "PyTorch's files younger than this many seconds stay, 60 unless told")
      ->check([](const std::string& text) { return check_seconds(text, 0); })
      ->option_text("SECONDS");

  CLI::App* inspect = add_command(app, options, "inspect",
                                  "Show what a module, a package, a file of weights, a "
                                  "descriptor or a named file holds",
                                  "tenon inspect model.pt", &options->inspect.json);
  inspect
      ->add_option(
          "FILE", options->inspect.what,
          "A module archive, flatbuffer or package, a file of torch.save, an exported program "
          "(.pt2), a safetensors file, an index of shards (.index.json), a file of NumPy (.npy, "
          ".npz) or of ExecuTorch's weights (.ptd), a file of a descriptor's bytes, - for standard "
          "input, or a name: /leaf in /dev/shm, or a path")
      ->required()
      ->option_text(" ");
  inspect->add_flag("--code", options->inspect.code,
                    "Of a module or a package, print its code, too");
  inspect
      ->add_flag("--ops", options->inspect.ops,
                 "Of a module, list only the operators that bytecode of its code calls")
      ->excludes("--code");
  inspect
      ->add_option("--methods", options->inspect.methods,
                   "The methods whose operators are listed; all of them unless told")
      ->needs("--ops")
      ->check(check_methods)
      ->option_text("NAMES");
  inspect
      ->add_option(
          "--module", options->inspect.module,
          "Of a package, show this module as if it were in an archive: its resource or its id")
      ->check(check_name)
      ->option_text("NAME");

  CLI::App* verify = add_command(app, options, "verify",
                                 "Check every byte, value and line of code of modules, packages "
                                 "and files of weights",
                                 "tenon verify model.pt", &options->verify.json);
  verify
      ->add_option("FILE", options->verify.paths,
                   "Module archives, flatbuffers, packages, files of torch.save, exported programs "
                   "(.pt2), safetensors files, indices of shards (.index.json), files of NumPy "
                   "(.npy, .npz) and of ExecuTorch's weights (.ptd); - is standard input")
      ->required()
      ->option_text("...");

  CLI::App* exporting = add_command(
      app, options, "export",
      "Write a module again, with bytecode or without it, or write several into a package",
      "tenon export model.pt model.ptl --bytecode", &options->export_.json);
  exporting
      ->add_option("FILE", options->export_.from,
                   "IN: a module archive, flatbuffer or package; - is standard input. OUT: the new "
                   "file. It may be IN, which is replaced "
                   "when the new file is complete")
      ->required()
      ->option_text("IN... OUT");
  exporting->final_callback([export_ = &options->export_] { take_output(export_); });
  CLI::Option* const package =
      exporting->add_flag("--package", options->export_.package,
                          "Write each IN into one package of torch.package, as models/<its "
                          "name>.pkl or, for NAME=IN, as NAME. An IN that is a package is "
                          "written again with all that no other IN replaces");
  exporting
      ->add_option("--module", options->export_.module,
                   "Of an IN that is a package, the module that is written: its resource or its id")
      ->excludes(package)
      ->check(check_name)
      ->option_text("NAME");
  exporting->add_flag("--bytecode", options->export_.bytecode,
                      "Make bytecode from the code, for PyTorch's lite interpreter. Without this "
                      "option the bytecode of IN is kept");
  exporting->add_flag("--no-bytecode", options->export_.no_bytecode, "Write no bytecode")
      ->excludes("--bytecode");
  exporting
      ->add_option(
          "--methods", options->export_.methods,
          "The methods that get bytecode, such as forward,predict; all of them unless told")
      ->needs("--bytecode")
      ->check(check_methods)
      ->option_text("NAMES");
  exporting
      ->add_option("--lower", options->export_.lower,
                   "The version of the bytecode, 4 to 8; below 8 for runtimes of an old PyTorch. 8 "
                   "unless told")
      ->needs("--bytecode")
      ->check(CLI::Range(4, 8))
      ->option_text("VERSION");
  exporting
      ->add_flag("--forks-at-once", options->export_.forks_at_once,
                 "Run a forked function where fork stands. Without this option, code that forks "
                 "gets no bytecode")
      ->needs("--bytecode");
  exporting
      ->add_flag("--flatbuffer", options->export_.flatbuffer,
                 "Write PyTorch's flatbuffer form in place of a zip archive. It always has "
                 "bytecode, which is made where IN has none")
      ->excludes("--no-bytecode");
  exporting->add_flag("--debug-tables", options->export_.debug_tables,
                      "Write debug tables, too: those of IN, and with --bytecode also new ones. "
                      "Tables of IN have paths of the machine "
                      "on which the module was saved");

  for (const char* const other : {"--bytecode", "--no-bytecode", "--flatbuffer", "--debug-tables"})
    package->excludes(other);

  CLI::App* convert = add_command(
      app, options, "convert", "Write the weights of a file as safetensors, torch.save or NumPy",
      "tenon convert pytorch_model.bin model.safetensors", &options->convert.json);
  convert
      ->add_option("FROM", options->convert.from,
                   "A file of torch.save or torch.jit.save, a safetensors file or an index of "
                   "shards, an exported program (.pt2), a file of NumPy (.npy, .npz) or of "
                   "ExecuTorch's weights (.ptd); - is standard input")
      ->required()
      ->option_text(" ");
  convert
      ->add_option("TO", options->convert.to,
                   "The new file. It may be FROM, which is replaced when the new file is complete")
      ->required()
      ->check([](const std::string& text) {
        return text == "-" ? "TO must be a file, not standard output" : "";
      })
      ->option_text(" ");
  convert
      ->add_option(
          "--form", options->convert.form,
          "safetensors, torch for a file of torch.save, or npz. Unless told, the end of TO says "
          "it: .safetensors; .pt, .pth or .bin; or .npz")
      ->check(CLI::IsMember({"safetensors", "torch", "npz"}))
      ->option_text("FORM");
  convert->add_flag("--duplicate-shared", options->convert.duplicate_shared,
                    "Write tensors that share memory whole, each of them. Without this option a "
                    "safetensors or .npz file of such tensors is refused");
  convert->add_flag("--skip", options->convert.skip,
                    "Leave out what TO cannot have, such as numbers and objects, with a line on "
                    "standard error for each. Without this option such a FROM is refused");

  add_weights(app, options);

  CLI::App* bench =
      add_command(app, options, "bench",
                  "Measure lends between two processes, as ratios to the bare system calls",
                  "tenon bench --quick", &options->bench.json);
  bench->add_flag("--quick", options->bench.quick, "Fewer rounds: seconds, and coarser numbers");
}

int run(const CLI::App& app, Options options) {
  choose_colour(wish_of(options.colour));
  for (std::string* directory :
       {&options.doctor.directory, &options.ls.directory, &options.gc.directory})
    *directory = directory_of(*directory);
  if (!options.weights.directory.empty())
    options.weights.directory = directory_of(options.weights.directory);
  int code = kExitUsage;
  if (app.got_subcommand("doctor")) code = run_doctor(options.doctor);
  if (app.got_subcommand("ls")) {
    LsOptions& ls = options.ls;
    const bool given = app.get_subcommand("ls")->get_option("DIRECTORY")->count() > 0;
    if (given && !ls.arenas && !ls.leases && !ls.queues) ls.names = true;
    code = run_ls(ls);
  }
  if (app.got_subcommand("top")) code = run_top(options.top);
  if (app.got_subcommand("gc")) code = run_gc(options.gc);
  if (app.got_subcommand("inspect")) code = run_inspect(options.inspect);
  if (app.got_subcommand("verify")) code = run_verify(options.verify);
  if (app.got_subcommand("export")) code = run_export(options.export_);
  if (app.got_subcommand("convert")) code = run_convert(options.convert);
  if (app.got_subcommand("weights")) code = run_weights(options.weights);
  if (app.got_subcommand("bench")) code = run_bench(options.bench);
  return code;
}

int finish(int code) {
  const Status written = flush_output();
  if (written.is_ok()) return code;
  print_error(written);
  return std::max(code, kExitProblem);
}

// Finds the first word that is not an option. It is meant as a command's name.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--color") ++i;
    if (word.starts_with('-')) continue;
    std::string known;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == word) return {};
      if (!known.empty()) known += ", ";
      known += command->get_name();
    }
    return format("there is no command '%s': the commands are %s", word.c_str(), known.c_str());
  }
  return {};
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Looks at what Tenon needs and at what is lent by name", "tenon");
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", std::string("tenon ") + tenon_version_string())
      ->description("Print the version");
  add_colour(&app, &options);
  app.require_subcommand(1);
  app.footer("Example:\n  tenon doctor\n\n'tenon COMMAND --help' says more.");
  add_commands(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help and --version
    app.exit(wanted);
    return finish(kExitOk);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_command(app, argc, argv);
    print_error(unknown.empty() ? error.what() : unknown);
    const auto commands = app.get_subcommands();
    print_error("see 'tenon" +
                (commands.empty() ? std::string() : " " + commands.front()->get_name()) +
                " --help'");
    return kExitUsage;
  }
  return finish(run(app, std::move(options)));
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  try {
    return tenon::cli::parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    tenon::cli::print_error(error.what());
    return tenon::cli::kExitProblem;
  }
}
