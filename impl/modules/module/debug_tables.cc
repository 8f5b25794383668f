#include "modules/module/debug_tables.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "modules/archive/pickle_from_values.h"
#include "modules/module/code_file.h"
#include "modules/module/source_table.h"

namespace tenon::module {

using compile::DebugInfo;
using value::Type;
using value::TypeRef;
using value::Value;

namespace {

class DebugTables {
 public:
  DebugTables(const bytecode::Program& program, const DebugInfo& info)
      : program_(program), info_(info) {}

  Result<std::vector<ExtraFile>> run(std::span<const ResolvedFile> files,
                                     std::span<const ExtraFile> carried) {
    for (const ResolvedFile& file : files) {
      const std::string name = code_record_of(file.qualifier);
      const std::string record = name + std::string(SourceTable::kEnd);
      const auto found = std::find_if(carried.begin(), carried.end(),
                                      [&](const ExtraFile& table) { return table.name == record; });
      if (found == carried.end()) continue;
      Result<SourceTable> table = SourceTable::read(record, found->content);
      if (table.is_ok()) keep(name, std::move(table).value());
    }
    TENON_TRY(make_source_tables());
    std::vector<ExtraFile> records;
    records.reserve(tables_.size() + 2);
    for (const auto& [name, table] : tables_)
      records.push_back({name + std::string(SourceTable::kEnd), table.content()});
    TENON_TRY(add("mobile_debug_handles.pkl", handles(), &records));
    TENON_TRY(add("callstack_debug_map.pkl", call_stacks(), &records));
    return records;
  }

 private:
  void keep(const std::string& name, SourceTable table) {
    next_tag_ = std::max(next_tag_, table.end_of_tags());
    tables_.emplace(name, std::move(table));
  }

  // Makes tables for the files that have none yet.
  Status make_source_tables() {
    std::map<std::string, std::pair<const script::Source*, std::vector<script::Range>>> needed;
    const auto need = [&](const script::Source* source, script::Range range) {
      if (tables_.contains(source->name())) return;
      auto& [of, ranges] = needed[source->name()];
      of = source;
      ranges.push_back(range);
    };
    for (const DebugInfo::CallSite& call : info_.calls) need(call.source, call.range);
    for (const DebugInfo::Origin& origin : info_.origins) need(origin.source, origin.range);
    for (auto& [name, file] : needed) {
      TENON_ASSIGN(SourceTable table,
                   SourceTable::make(*file.first, std::move(file.second), next_tag_));
      keep(name, std::move(table));
    }
    return {};
  }

  ValueRef tag(const script::Source* source, script::Range range) const {
    return Value::of_int(tables_.find(source->name())->second.tag_of(range));
  }

  // Gives each instruction a handle of its own, counted through all functions.
  Result<ValueRef> handles() const {
    TENON_ASSIGN(const TypeRef type, Type::list(Type::integer()));
    std::vector<ValueRef> items{Value::of_int(program_.version)};
    int64_t next = 0;
    for (size_t i = 0; i < program_.functions.size(); ++i) {
      std::vector<ValueRef> numbers;
      numbers.reserve(info_.functions[i].size());
      for (size_t k = 0; k < info_.functions[i].size(); ++k)
        numbers.push_back(Value::of_int(next++));
      ValueRef list = Value::tuple({Value::list(type, std::move(numbers))});
      ValueRef table =
          Value::tuple({Value::tuple({Value::of_str("function_debug_handles"), std::move(list)})});
      items.push_back(Value::tuple({Value::of_str(program_.functions[i].name), std::move(table)}));
    }
    return Value::tuple(std::move(items));
  }

  // Gives for each instruction its handle, its tag, its node, and the calls through which it came
  // into the function, the outermost call first.
  Result<ValueRef> call_stacks() const {
    std::vector<ValueRef> calls;
    for (const DebugInfo::CallSite& call : info_.calls) {
      ValueRef module =
          call.module.empty()
              ? Value::none()
              : Value::tuple({Value::of_str(call.module), Value::of_str(call.instance)});
      ValueRef callee = call.callee == DebugInfo::kNoCall ? Value::none() : calls[call.callee];
      calls.push_back(Value::tuple({std::move(module), tag(call.source, call.range),
                                    std::move(callee), Value::of_str(call.function)}));
    }
    std::vector<ValueRef> items;
    for (const std::vector<size_t>& function : info_.functions) {
      for (const size_t number : function) {
        const DebugInfo::Origin& origin = info_.origins[number];
        const auto handle = static_cast<int64_t>(items.size());
        ValueRef stack = origin.call == DebugInfo::kNoCall ? Value::none() : calls[origin.call];
        items.push_back(Value::tuple({Value::of_int(handle), tag(origin.source, origin.range),
                                      Value::of_str(origin.node), std::move(stack)}));
      }
    }
    return Value::tuple(std::move(items));
  }

  static Status add(const char* name, Result<ValueRef> root, std::vector<ExtraFile>* records) {
    TENON_TRY(root.status());
    archive::FromValuesOptions options;
    options.record = name;
    TENON_ASSIGN(const std::vector<std::byte> bytes,
                 archive::values_to_pickle(root.value(), options));
    records->push_back(
        {name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
    return {};
  }

  const bytecode::Program& program_;
  const DebugInfo& info_;
  std::map<std::string, SourceTable> tables_;  // by the name of the code file's record
  int64_t next_tag_ = 0;
};

}  // namespace

Result<std::vector<ExtraFile>> make_debug_tables(const bytecode::Program& program,
                                                 const compile::DebugInfo& info,
                                                 std::span<const ResolvedFile> files,
                                                 std::span<const ExtraFile> carried) {
  return DebugTables(program, info).run(files, carried);
}

}  // namespace tenon::module
