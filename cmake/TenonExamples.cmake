# tenon_add_examples(<language> LABEL <label> RUN <word>... RUN_MODULE <word>...
#                    [ENVIRONMENT <NAME=value>...])
#
# Registers the tests of one language's examples. Every language has the same examples, and each
# example prints the same texts in all of them. The words of RUN run one example, and the texts
# follow them. The words of RUN_MODULE run an example about archives. In these words, @ stands for
# the example's name.
function(tenon_add_examples language)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "RUN;RUN_MODULE;ENVIRONMENT")
  foreach(example IN ITEMS
      "lend_and_modify|the last element is now 42"
      "read_only_lend|the third weight is 2.5|cannot write|lent once, 16 bytes"
      "sparse_features|the rows sum to 3 0 3|lent 3 of 12 elements"
      "weak_cache|the same storage: yes|expired after the last release: yes"
      "by_name|the other process wrote 998001|the name is gone"
      "arena_and_leases|holds 8 leases of 8388608 bytes|one worker was killed, and there is room\
|a worker still reads 42|0 blocks are lent"
      "weights_once|4 workers read 10000000, and 1 of them loaded the file|the loader was killed\
, and a new worker reads 10000000")
    string(REPLACE "|" ";" texts "${example}")
    list(POP_FRONT texts name)
    string(REPLACE "@" "${name}" run "${arg_RUN}")
    tenon_add_test(example.${language}.${name} LABEL ${arg_LABEL} COMMAND ${run} ${texts}
      ENVIRONMENT ${arg_ENVIRONMENT})
  endforeach()
  foreach(name IN ITEMS export_mlp replace_weights inspect_module)
    string(REPLACE "@" "${name}" run "${arg_RUN_MODULE}")
    tenon_add_test(example.${language}.${name} LABEL ${arg_LABEL} COMMAND ${run}
      ENVIRONMENT ${arg_ENVIRONMENT})
  endforeach()
endfunction()
