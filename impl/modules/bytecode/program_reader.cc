#include "modules/bytecode/program_reader.h"

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/bytecode/record.h"

namespace tenon::bytecode {

using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

using Items = std::span<const ValueRef>;

constexpr size_t kMaxNamedBytes = 300;  // the most bytes of a text in a message

class ProgramReader {
 public:
  explicit ProgramReader(const ReadLimits& limits) : nbytes_left_(limits.max_nbytes) {}

  Result<Program> run(const Value& root) {
    TENON_ASSIGN(const Items items, tuple_of(root, "the record"));
    if (items.empty()) return corrupt("the record is an empty tuple");
    if (!items[0]->is(ValueKind::kInt)) {
      return corrupt("the record begins with " + name_of(*items[0]) + ", and not with a version");
    }
    Program program;
    program.version = items[0]->as_int();
    if (program.version < kOldestVersion || program.version > kNewestVersion) {
      return Status(Code::kIncompatible,
                    format("bytecode.pkl has version %lld, and versions %lld to %lld are known: "
                           "save the module by a PyTorch that writes one of these",
                           static_cast<long long>(program.version),
                           static_cast<long long>(kOldestVersion),
                           static_cast<long long>(kNewestVersion)))
          .with("record", "bytecode.pkl");
    }
    version_ = program.version;
    if (items.size() == 1) return corrupt("the record has no function");
    TENON_TRY(take(items.size() - 1, sizeof(Function)));
    program.functions.reserve(items.size() - 1);
    for (size_t i = 1; i < items.size(); ++i) {
      where_ = "function " + std::to_string(i - 1);
      TENON_ASSIGN(Function function, read_function(*items[i]));
      program.functions.push_back(std::move(function));
    }
    return program;
  }

 private:
  Result<Function> read_function(const Value& value) {
    TENON_ASSIGN(const Items items, tuple_of(value, "the function"));
    if (items.size() != 2 && items.size() != 3) {
      return corrupt(format("a function is a tuple of 2 or 3, and this one of %zu", items.size()));
    }
    Function function;
    TENON_ASSIGN(function.name, text_of(*items[0], "the name"));
    if (function.name.empty()) return corrupt("the name is empty");
    where_ = "function " + function.name.substr(0, kMaxNamedBytes);
    TENON_TRY(read_code(*items[1], &function));
    function.has_schema = items.size() == 3;
    if (!function.has_schema) {
      if (version_ <= kLastWithoutSchema) return function;
      return corrupt(format("the schema is missing, which version %lld has",
                            static_cast<long long>(version_)));
    }
    Items parts[std::size(kSchemaKeys)];
    TENON_TRY(read_table(*items[2], kSchemaKeys, "the schema", parts));
    TENON_ASSIGN(function.arguments, read_arguments(parts[0], "argument"));
    TENON_ASSIGN(function.returns, read_arguments(parts[1], "return"));
    return function;
  }

  Status read_code(const Value& value, Function* function) {
    TENON_ASSIGN(const Items rows, rows_of(value, kCodeKeys, "the code"));
    Items parts[4];
    for (size_t i = 0; i < std::size(parts); ++i) {
      TENON_ASSIGN(parts[i], tuple_of(*rows[i]->items()[1], kCodeKeys[i]));
    }
    TENON_TRY(read_instructions(parts[0], function));
    TENON_TRY(read_operators(parts[1], function));
    TENON_TRY(take(parts[2].size(), sizeof(ValueRef)));
    function->constants.assign(parts[2].begin(), parts[2].end());
    TENON_TRY(take(parts[3].size(), sizeof(std::string)));
    function->types.reserve(parts[3].size());
    for (size_t i = 0; i < parts[3].size(); ++i) {
      TENON_ASSIGN(std::string type, text_of(*parts[3][i], "a type"));
      if (type.empty()) return corrupt(format("the type %zu is empty", i));
      function->types.push_back(std::move(type));
    }
    const Value& count = *rows[4]->items()[1];
    if (!count.is(ValueKind::kInt) || count.as_int() < 0) {
      return corrupt("register_size is " + name_of(count) + ", and not a number from 0 on");
    }
    function->register_count = count.as_int();
    return Status::ok();
  }

  Status read_instructions(Items items, Function* function) {
    TENON_TRY(take(items.size(), sizeof(Instruction)));
    function->instructions.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const Value& item = *items[i];
      const bool is_triple = item.is(ValueKind::kTuple) && item.items().size() == 3 &&
                             item.items()[0]->is(ValueKind::kStr) &&
                             item.items()[1]->is(ValueKind::kInt) &&
                             item.items()[2]->is(ValueKind::kInt);
      if (!is_triple) {
        return corrupt(format("instruction %zu is no tuple of a name and two integers", i));
      }
      const std::string& name = item.items()[0]->as_str();
      const std::optional<Opcode> opcode = find_opcode(name);
      if (!opcode) {
        return corrupt(
            format("instruction %zu is '%.100s', and PyTorch has no such opcode", i, name.c_str()));
      }
      const int64_t x = item.items()[1]->as_int();
      const int64_t n = item.items()[2]->as_int();
      if (x < std::numeric_limits<int32_t>::min() || x > std::numeric_limits<int32_t>::max()) {
        return corrupt(format("instruction %zu, %s: X is %lld, which 32 bits do not hold", i,
                              name.c_str(), static_cast<long long>(x)));
      }
      if (n < 0 || n > kMaxN) {
        return corrupt(format("instruction %zu, %s: N is %lld, and not from 0 to %lld", i,
                              name.c_str(), static_cast<long long>(n),
                              static_cast<long long>(kMaxN)));
      }
      function->instructions.push_back({*opcode, static_cast<int32_t>(x), static_cast<int32_t>(n)});
    }
    return Status::ok();
  }

  Status read_operators(Items items, Function* function) {
    TENON_TRY(take(items.size(), sizeof(OperatorUse)));
    function->operators.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const Value& item = *items[i];
      const size_t size = item.is(ValueKind::kTuple) ? item.items().size() : 0;
      if (size != 2 && size != 3) {
        return corrupt(format("operator %zu is no tuple of 2 or 3", i));
      }
      OperatorUse use;
      TENON_ASSIGN(use.name, text_of(*item.items()[0], "an operator's name"));
      TENON_ASSIGN(use.overload, text_of(*item.items()[1], "an operator's overload"));
      if (use.name.empty()) return corrupt(format("operator %zu has an empty name", i));
      if (size == 3) {
        const Value& count = *item.items()[2];
        const bool is_count = count.is(ValueKind::kInt) && count.as_int() >= kVariadicInRecord &&
                              count.as_int() <= kMaxN;
        if (!is_count) {
          return corrupt(format("operator %zu, %s: %s is no number of arguments", i,
                                use.name.substr(0, kMaxNamedBytes).c_str(),
                                name_of(count).c_str()));
        }
        use.arguments = count.as_int() == kVariadicInRecord ? OperatorUse::kVariadic
                                                            : static_cast<int32_t>(count.as_int());
      }
      function->operators.push_back(std::move(use));
    }
    return Status::ok();
  }

  Result<std::vector<Argument>> read_arguments(Items items, const char* what) {
    TENON_TRY(take(items.size(), sizeof(Argument)));
    std::vector<Argument> arguments;
    arguments.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string place = format("%s %zu", what, i);
      TENON_ASSIGN(const Items rows, rows_of(*items[i], kArgumentKeys, place));
      Argument argument;
      TENON_ASSIGN(argument.name, text_of(*rows[0]->items()[1], "an argument's name"));
      TENON_ASSIGN(argument.type, text_of(*rows[1]->items()[1], "an argument's type"));
      if (argument.type.empty()) return corrupt(place + " has an empty type");
      const ValueRef& default_value = rows[2]->items()[1];
      if (!default_value->is(ValueKind::kNone)) argument.default_value = default_value;
      arguments.push_back(std::move(argument));
    }
    return arguments;
  }

  // Returns the rows of a table, which is a tuple of pairs. Their keys must be `keys`, in that
  // order.
  Result<Items> rows_of(const Value& value, std::span<const std::string_view> keys,
                        std::string_view what) {
    TENON_ASSIGN(const Items rows, tuple_of(value, what));
    if (rows.size() != keys.size()) {
      return corrupt(format("%.*s has %zu rows, and not %zu", static_cast<int>(what.size()),
                            what.data(), rows.size(), keys.size()));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const Value& row = *rows[i];
      if (!row.is(ValueKind::kTuple) || row.items().size() != 2) {
        return corrupt(
            format("row %zu of %.*s is no pair", i, static_cast<int>(what.size()), what.data()));
      }
      const Value& key = *row.items()[0];
      if (!key.is(ValueKind::kStr) || key.as_str() != keys[i]) {
        return corrupt(format("row %zu of %.*s is %s, and not '%.*s'", i,
                              static_cast<int>(what.size()), what.data(), name_of(key).c_str(),
                              static_cast<int>(keys[i].size()), keys[i].data()));
      }
    }
    return rows;
  }

  // Reads the values of a table. Each of them must be a tuple.
  Status read_table(const Value& value, std::span<const std::string_view> keys,
                    std::string_view what, std::span<Items> parts) {
    TENON_ASSIGN(const Items rows, rows_of(value, keys, what));
    for (size_t i = 0; i < rows.size(); ++i) {
      TENON_ASSIGN(parts[i], tuple_of(*rows[i]->items()[1], keys[i]));
    }
    return Status::ok();
  }

  Result<Items> tuple_of(const Value& value, std::string_view what) const {
    if (value.is(ValueKind::kTuple)) return value.items();
    return corrupt(std::string(what) + " is " + name_of(value) + ", and no tuple");
  }

  Result<std::string> text_of(const Value& value, const char* what) {
    if (!value.is(ValueKind::kStr)) {
      return corrupt(std::string(what) + " is " + name_of(value) + ", and no text");
    }
    TENON_TRY(take(value.as_str().size(), 1));
    return value.as_str();
  }

  static std::string name_of(const Value& value) {
    if (value.is(ValueKind::kStr)) return "'" + value.as_str().substr(0, kMaxNamedBytes) + "'";
    if (value.is(ValueKind::kInt)) return std::to_string(value.as_int());
    return std::string("a value of kind ") + value::value_kind_name(value.kind());
  }

  Status take(uint64_t count, uint64_t nbytes_each) {
    if (count > nbytes_left_ / nbytes_each) {
      return fault(Code::kResourceExhausted, "the program takes more memory than the limit allows");
    }
    nbytes_left_ -= count * nbytes_each;
    return Status::ok();
  }

  Status corrupt(const std::string& what) const { return fault(Code::kCorrupt, what); }
  Status fault(Code code, const std::string& what) const {
    return Status(code, "bytecode.pkl: " + (where_.empty() ? what : where_ + ": " + what))
        .with("record", "bytecode.pkl");
  }

  uint64_t nbytes_left_;
  int64_t version_ = 0;
  std::string where_;
};

}  // namespace

Result<Program> read_program(const ValueRef& pickled, const ReadLimits& limits) {
  return ProgramReader(limits).run(*pickled);
}

}  // namespace tenon::bytecode
