#include "modules/module/kept_bytecode.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/zip_names.h"
#include "modules/bytecode/program_reader.h"
#include "modules/bytecode/program_writer.h"
#include "modules/compile/operator_arity.h"
#include "modules/value/walk.h"

namespace tenon::module {

using value::Attribute;
using value::StorageValueRef;
using value::Value;
using value::ValueKind;

namespace {

constexpr const char* kBytecodeRecord = "bytecode.pkl";
// The limit of a program's memory: this many bytes for each byte of its record, and a minimum for
// small records. PyTorch's programs take about four.
constexpr uint64_t kProgramNbytesPerByte = 64;
constexpr uint64_t kLeastProgramNbytes = uint64_t{1} << 20;

BytecodeFacts facts_of(const bytecode::Program& program) {
  BytecodeFacts facts;
  facts.version = program.version;
  std::set<std::string> operators;
  for (const bytecode::Function& function : program.functions) {
    facts.functions.push_back(function.name);
    facts.instructions += function.instructions.size();
    for (const bytecode::OperatorUse& use : function.operators) {
      operators.insert(use.overload.empty() ? use.name : use.name + "." + use.overload);
    }
  }
  facts.operators.assign(operators.begin(), operators.end());
  return facts;
}

bool has_slots(const Value& value) { return value.is(ValueKind::kObject) && !value.is_opaque(); }

}  // namespace

bool SlotOrder::lists(const Value& object, const Names& names) {
  return std::equal(
      names.begin(), names.end(), object.attributes().all().begin(),
      object.attributes().all().end(),
      [](const std::string& name, const Attribute& attribute) { return name == attribute.name; });
}

Result<SlotOrder> SlotOrder::of(const ValueRef& root) {
  SlotOrder order;
  TENON_TRY(value::for_each(*root, [&](Value& object, size_t) -> Status {
    if (!has_slots(object)) return Status::ok();
    const auto [known, is_new] = order.names_.try_emplace(object.class_name());
    if (is_new) {
      for (const Attribute& attribute : object.attributes().all())
        known->second.push_back(attribute.name);
    } else if (!lists(object, known->second)) {
      return Status(Code::kCorrupt,
                    format("objects of the class %.300s list their attributes in different orders",
                           object.class_name().c_str()));
    }
    return Status::ok();
  }));
  return order;
}

Status SlotOrder::check(const ValueRef& root) const {
  return value::for_each(*root, [&](Value& object, size_t) -> Status {
    if (!has_slots(object)) return Status::ok();
    const auto known = names_.find(object.class_name());
    if (known == names_.end()) {
      return invalid(format(
          "the module has an object of the class %.300s, and had none when the bytecode was made",
          object.class_name().c_str()));
    }
    if (lists(object, known->second)) return Status::ok();
    return invalid(
        format("an object of the class %.300s has its attributes in another order than when the "
               "bytecode was made",
               object.class_name().c_str()));
  });
}

Result<std::shared_ptr<const KeptBytecode>> KeptBytecode::create(std::string pickle,
                                                                 std::string directory,
                                                                 const ValueRef& root,
                                                                 const Options& options) {
  std::shared_ptr<KeptBytecode> made(new KeptBytecode(std::move(directory), options.limits));
  made->pickle_ = std::move(pickle);
  Options noting = options;
  noting.finder = [&](const pickle::PickleTree& tree) -> archive::FindStorage {
    return [&made = *made, find = options.finder(tree)](
               const archive::PickledStorage& wanted) -> Result<StorageValueRef> {
      const std::string name = made.directory_ + std::string(wanted.key);
      if (const char* const fault = archive::find_name_fault(name)) {
        return Status(Code::kCorrupt, format("bytecode.pkl: the name of the record %.300s %s",
                                             name.c_str(), fault));
      }
      TENON_ASSIGN(StorageValueRef storage, find(wanted));
      const auto [place, is_new] = made.storages_.try_emplace(std::string(wanted.key), storage);
      if (!is_new && place->second->key() != storage->key()) {
        return Status(Code::kCorrupt,
                      format("bytecode.pkl: the storage %.100s has two types or sizes",
                             place->first.c_str()));
      }
      if (wanted.device != "cpu") made.is_of_cpu_ = false;
      return storage;
    };
  };
  TENON_ASSIGN(const archive::UnpickledValue values, made->values(noting));
  bytecode::ReadLimits limits;
  limits.max_nbytes = std::min(limits.max_nbytes,
                               kLeastProgramNbytes + kProgramNbytesPerByte * made->pickle_.size());
  TENON_ASSIGN(const bytecode::Program program, bytecode::read_program(values.root, limits));
  bytecode::VerifyOptions verifying;
  verifying.find_arity = compile::find_operator_arity;
  verifying.module = root;
  verifying.classes = options.classes;
  TENON_TRY(bytecode::verify(program, verifying));
  TENON_ASSIGN(made->slots_, SlotOrder::of(root));
  made->checked_.set(std::make_unique<Checked>(Checked{Status::ok(), facts_of(program)}));
  return std::shared_ptr<const KeptBytecode>(std::move(made));
}

Result<std::shared_ptr<const KeptBytecode>> KeptBytecode::of_program(bytecode::Program program,
                                                                     std::string directory,
                                                                     StorageNames names,
                                                                     const ValueRef& root,
                                                                     const Options& options) {
  std::shared_ptr<KeptBytecode> made(new KeptBytecode(std::move(directory), options.limits));
  TENON_ASSIGN(made->module_slots_, bytecode::ModuleSlots::create(program, root, options.classes));
  TENON_ASSIGN(made->slots_, SlotOrder::of(root));
  made->names_ = std::move(names);
  made->program_ = std::move(program);
  return std::shared_ptr<const KeptBytecode>(std::move(made));
}

const KeptBytecode::Checked& KeptBytecode::checked() const {
  return checked_.get([this] {
    bytecode::VerifyOptions verifying;
    verifying.find_arity = compile::find_operator_arity;
    auto made = std::make_unique<Checked>();
    made->status = bytecode::verify(*program_, *module_slots_, verifying);
    if (made->status.is_ok()) made->facts = facts_of(*program_);
    return made;
  });
}

Result<archive::UnpickledValue> KeptBytecode::values(const Options& options) const {
  pickle::PickleReadOptions read;
  read.limits = limits_;
  read.record = kBytecodeRecord;
  TENON_ASSIGN(const pickle::PickleTree tree,
               pickle::read_pickle(std::as_bytes(std::span(pickle_.data(), pickle_.size())), read));
  archive::ToValuesOptions to_values;
  to_values.find_storage = options.finder(tree);
  to_values.check_class = options.check_class;
  to_values.limits = limits_;
  return archive::pickle_to_values(tree, to_values);
}

Result<archive::UnpickledValue> KeptBytecode::values_again() const {
  Options options;
  options.finder = [this](const pickle::PickleTree&) -> archive::FindStorage {
    return [this](const archive::PickledStorage& wanted) -> Result<StorageValueRef> {
      return storages_.at(std::string(wanted.key));
    };
  };
  return values(options);
}

Status KeptBytecode::check_fits(const Resolved& resolved, int version) const {
  if (!resolved.is_as_read)
    return invalid("the code of the module was changed, or is not the whole archive's");
  if (resolved.version != version) {
    return invalid(format("the archive says version %d, and said %d when the bytecode was made",
                          resolved.version, version));
  }
  return slots_.check(resolved.root);
}

Result<KeptBytecode::Record> KeptBytecode::record(bool keep_device) const {
  if (program_) {
    TENON_ASSIGN(const ValueRef values, bytecode::program_value(*program_));
    return pickled(values, nullptr, names_, keep_device);
  }
  const bool is_moved = std::any_of(storages_.begin(), storages_.end(),
                                    [](const auto& entry) { return entry.second->is_on_device(); });
  if (is_of_cpu_ && !(keep_device && is_moved)) return Record{pickle_, storages_};
  TENON_ASSIGN(const archive::UnpickledValue values, values_again());
  StorageNames names;
  for (const auto& [key, storage] : storages_) names.emplace(storage->key(), key);
  return pickled(values.root, &values.memoised, names, keep_device);
}

Result<KeptBytecode::Record> KeptBytecode::pickled(const ValueRef& values,
                                                   const std::vector<ValueRef>* memoised,
                                                   const StorageNames& names,
                                                   bool keep_device) const {
  Record made;
  archive::FromValuesOptions options;
  options.record = kBytecodeRecord;
  options.memoised = memoised;
  options.keep_device = keep_device;
  options.name_storage = [&](const StorageValueRef& storage) -> Result<std::string> {
    const std::string& name = names.at(storage->key());
    made.storages.emplace(name, storage);
    return name;
  };
  TENON_ASSIGN(const std::vector<std::byte> bytes, archive::values_to_pickle(values, options));
  made.pickle.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return made;
}

Result<bytecode::Program> KeptBytecode::program() const {
  if (program_) return *program_;
  TENON_ASSIGN(const archive::UnpickledValue values, values_again());
  return bytecode::read_program(values.root);
}

}  // namespace tenon::module
