// The subcommands. Each prints its result or its error, and returns the exit code. main() prints an
// exception such as std::bad_alloc, and then ends with kExitProblem. A command runs on one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cli {

inline constexpr int kExitOk = 0;
// Something is worth a warning, could not be removed, or is wrong.
inline constexpr int kExitProblem = 1;
inline constexpr int kExitUsage = 2;  // a wrong command line; for doctor: Tenon does not work here

// How often a name is checked, at intervals of a millisecond. A check by another process at the
// same moment is over by then.
inline constexpr int kPatience = 20;

struct DoctorOptions {
  std::string directory;
  bool json = false;
};
int run_doctor(const DoctorOptions& options);

struct LsOptions {
  std::string directory;
  bool json = false;
  bool prometheus = false;
  bool all = false;
  bool names = false;  // the four say what to list; if none is set, everything
  bool arenas = false;
  bool leases = false;
  bool queues = false;
};
int run_ls(const LsOptions& options);

struct TopOptions {
  double interval = 1;  // seconds
  bool once = false;
  bool json = false;
};
int run_top(const TopOptions& options);

struct GcOptions {
  std::string directory;
  bool yes = false;
  bool torch = false;
  double min_age = 60;  // seconds
  bool json = false;
};
int run_gc(const GcOptions& options);

struct InspectOptions {
  std::string what;
  bool code = false;    // for an archive: print the text of its code too
  bool ops = false;     // for an archive: print only the operators that bytecode of its code calls
  std::string methods;  // for ops: the methods, with commas between them; empty: all
  std::string module;   // for a package: the resource or the id of one of its modules; empty: all
  bool json = false;
};
int run_inspect(const InspectOptions& options);

struct VerifyOptions {
  std::vector<std::string> paths;
  bool json = false;
};
int run_verify(const VerifyOptions& options);

struct ExportCommandOptions {
  std::vector<std::string> from;  // with `package`, each may be NAME=FILE
  std::string to;
  std::string module;     // for a package as input: the module that is written
  bool package = false;   // write all of `from` into one package
  bool bytecode = false;  // make bytecode from the code
  bool no_bytecode = false;
  bool flatbuffer = false;
  std::string methods;  // the methods, with commas between them; empty: all
  int lower = 0;        // the version of the bytecode; 0: the newest
  bool forks_at_once = false;
  bool debug_tables = false;
  bool json = false;
};
int run_export(const ExportCommandOptions& options);

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string form;  // "safetensors" or "torch"; empty: the end of `to` says it
  bool duplicate_shared = false;
  bool skip = false;  // leave out what `to` cannot have
  bool json = false;
};
int run_convert(const ConvertOptions& options);

struct WeightsOptions {
  std::string action;          // "ls", "keep", "drop" or "switch"
  std::string name;            // of the weights; empty for ls
  std::string file;            // for keep and switch: the file; empty for keep: it only attaches
  std::string directory;       // empty: this user's own
  std::string group;           // for keep and switch: a group's name or number; empty: none
  std::string device = "cpu";  // of the weights; ls shows those of all devices
  uint64_t budget = 0;         // for keep and switch: the most bytes of all names; 0: no limit
  double timeout = 10;         // for drop, in seconds
  bool json = false;
};
int run_weights(const WeightsOptions& options);
int keep_weights(const WeightsOptions& options);
int drop_weights(const WeightsOptions& options);
int switch_weights(const WeightsOptions& options);

struct BenchOptions {
  bool quick = false;
  bool json = false;
};
int run_bench(const BenchOptions& options);

}  // namespace tenon::cli
