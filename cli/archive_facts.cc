#include "archive_facts.h"

#include <array>
#include <cinttypes>
#include <cstring>
#include <map>
#include <utility>

#include "base/checked.h"
#include "checkpoint_facts.h"
#include "modules/archive/file_mapping.h"
#include "modules/flatbuffer/module_reader.h"
#include "modules/module/code_check.h"
#include "modules/module/import.h"
#include "modules/module/resolve.h"
#include "modules/value/value.h"
#include "output.h"

namespace tenon::cli {
namespace {

using module::Member;
using module::MemberKind;
using module::Module;
using value::TensorValue;
using value::Value;
using value::ValueKind;

constexpr size_t kMostModules = 100'000;
constexpr size_t kMostText = 80;

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

std::string value_text(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone: return "None";
    case ValueKind::kBool: return value.as_bool() ? "True" : "False";
    case ValueKind::kInt: return std::to_string(value.as_int());
    case ValueKind::kFloat: return format("%.17g", value.as_float());
    case ValueKind::kComplex:
      return format("%.17g%+.17gj", value.as_complex().real(), value.as_complex().imag());
    case ValueKind::kStr: return "'" + cut_text(safe_text(value.as_str()), kMostText) + "'";
    case ValueKind::kDevice: return "device '" + safe_text(value.as_device()) + "'";
    case ValueKind::kTensor: return "a tensor";
    case ValueKind::kTuple: return plural_text(value.items().size(), "item", "items");
    case ValueKind::kList: return plural_text(value.items().size(), "item", "items");
    case ValueKind::kDict: return plural_text(value.entries().size(), "entry", "entries");
    case ValueKind::kEnum: return value_text(*value.enum_value());
    case ValueKind::kObject:
      return value.is_opaque() ? "an object with a state"
                               : plural_text(value.attributes().size(), "attribute", "attributes");
  }
  return "?";
}

// Adds requires_grad, the layout, the quantizer and other details.
void add_tensor_details(const TensorValue& tensor, std::string* details) {
  if (tensor.requires_grad()) add_detail("requires_grad", details);
  if (tensor.layout() != value::TensorLayout::kStrided)
    return add_detail(value::tensor_layout_name(tensor.layout()), details);
  if (tensor.is_conj()) add_detail("conj", details);
  if (tensor.is_neg()) add_detail("neg", details);
  if (tensor.quantizer().has_value())
    add_detail(value::qscheme_name(tensor.quantizer()->scheme), details);
}

uint64_t nbytes_of(const TensorValue& tensor) {
  if (tensor.layout() == value::TensorLayout::kStrided) {
    uint64_t nbytes = 0;
    return checked_mul<uint64_t>(tensor.numel(), tensor::scalar_type_info(tensor.type()).nbytes,
                                 &nbytes)
               ? nbytes
               : UINT64_MAX;
  }
  uint64_t sum = 0;
  for (const value::TensorValueRef& part :
       {tensor.indices(), tensor.plain_indices(), tensor.values()}) {
    if (part && !checked_add(sum, nbytes_of(*part), &sum)) return UINT64_MAX;
  }
  return sum;
}

class Gatherer {
 public:
  explicit Gatherer(ArchiveFacts* facts) noexcept : facts_(facts) {}

  // Visits the modules depth first, in the order of the classes. It is not recursive, because the
  // file decides the depth.
  Status gather(const Ref<Module>& root) {
    std::vector<std::pair<std::string, Ref<Module>>> open;
    open.emplace_back("", root);
    while (!open.empty()) {
      auto [path, module] = std::move(open.back());
      open.pop_back();
      if (facts_->modules.size() == kMostModules) {
        return Status(Code::kResourceExhausted,
                      format("there are more than %zu modules", kMostModules))
            .with("limit", "modules");
      }
      ModuleFact fact{path, module->class_name(), {}, false};
      const auto [met, is_new] = seen_.try_emplace(module->object().get(), facts_->modules.size());
      if (!is_new) {
        fact.same_as = facts_->modules[met->second].path;
        fact.is_shared = true;
        facts_->modules[met->second].is_shared = true;
      }
      facts_->modules.push_back(std::move(fact));
      if (!is_new) continue;
      TENON_ASSIGN(const std::vector<Member> members, module->members());
      const size_t before = open.size();
      for (const Member& member : members) {
        if (member.kind == MemberKind::kSubmodule)
          open.emplace_back(joined(path, member.name), member.module);
        else
          add(joined(path, member.name), member);
      }
      std::reverse(open.begin() + static_cast<std::ptrdiff_t>(before), open.end());
    }
    return Status::ok();
  }

 private:
  void add(const std::string& path, const Member& member) {
    if (member.kind == MemberKind::kMethod) {
      facts_->methods.push_back({path, head_of(member.source)});
      return;
    }
    const bool is_tensor = member.value && member.value->is(ValueKind::kTensor);
    if (member.kind == MemberKind::kParameter || member.kind == MemberKind::kBuffer || is_tensor) {
      facts_->tensors.push_back(tensor_fact(path, member));
      return;
    }
    const std::string text =
        member.value ? value_text(*member.value) : cut_text(safe_text(member.source), kMostText);
    facts_->members.push_back({path, module::member_kind_name(member.kind),
                               member.type ? member.type->print() : "", text});
  }

  // Gives the text from `def` to the colon at the end of the method's head.
  static std::string head_of(const std::string& source) {
    std::string head;
    bool space = false;
    int depth = 0;
    for (const char char_ : source.substr(std::min(source.find("def "), source.size()))) {
      depth += (char_ == '(' || char_ == '[') - (char_ == ')' || char_ == ']');
      if (char_ == ':' && depth == 0) break;
      if (char_ == ' ' || char_ == '\n' || char_ == '\t') {
        space = !head.empty();
        continue;
      }
      if (space) head += ' ';
      space = false;
      head += char_;
    }
    return head;
  }

  TensorFact tensor_fact(const std::string& path, const Member& member) {
    TensorFact fact;
    fact.path = path;
    fact.kind = module::member_kind_name(member.kind);
    if (!member.value || !member.value->is(ValueKind::kTensor)) return fact;
    const TensorValue& tensor = *member.value->as_tensor();
    describe_tensor(tensor, &fact);
    if (tensor.layout() != value::TensorLayout::kStrided) return fact;
    const value::StorageValue& storage = *tensor.storage();
    if (storage.is_meta()) add_detail("meta", &fact.details);
    const auto [at, is_new] = storages_.try_emplace(storage.key(), facts_->storages.size());
    if (is_new)
      facts_->storages.push_back({tensor::scalar_type_info(storage.type()).name, storage.numel(),
                                  storage.nbytes(), 0, storage.key()});
    ++facts_->storages[at->second].tensors;
    fact.storage = at->second;
    return fact;
  }

  ArchiveFacts* facts_;
  std::map<const Value*, size_t> seen_;
  std::map<value::StorageKey, size_t> storages_;
};

// The storages are the parts of a flatbuffer that inspect lists in place of an archive's records.
Result<Ref<archive::ZipReader>> storages_of_flatbuffer(Ref<archive::ZipSource> source) {
  TENON_ASSIGN(const flatbuffer::ModuleReader reader, flatbuffer::ModuleReader::open(*source, {}));
  return archive::ZipReader::of_ranges(std::move(source), reader.storages(), "storage_data/");
}

Status import_and_gather(const ArchiveInput& input, archive::Check check, ArchiveFacts* facts) {
  module::ImportOptions options;
  options.check = check;
  TENON_ASSIGN(const Ref<Module> root, module::import_module(input.fd.get(), options));
  return gather_module(root, facts);
}

}  // namespace

Status gather_module(const Ref<Module>& root, ArchiveFacts* facts) {
  facts->root = root;
  TENON_TRY(Gatherer(facts).gather(root));
  // Resolves the module as an export does, without writing it, to get the files of the code and
  // their needs.
  TENON_ASSIGN(const module::Resolved resolved, module::resolve(*facts->root, 0));
  for (const module::ResolvedFile& file : resolved.files)
    facts->code.push_back({module::code_record_of(file.qualifier), file.text});
  Result<module::CodeNeeds> needs =
      module::check_resolved(resolved, module::CodeCheck::kRefusedByAll);
  facts->why_not_taken = needs.status();
  if (needs.is_ok()) {
    facts->oldest_pytorch = std::move(needs.value().oldest_pytorch);
    facts->partly_refused = std::move(needs.value().partly_refused);
  }
  facts->why_no_bytecode = facts->root->package().why_no_bytecode();
  facts->warnings = facts->root->package().import_warnings();
  return Status::ok();
}

std::string part_count_text(const ArchiveFacts& facts) {
  const uint64_t count = facts.container->records().size();
  return facts.is_flatbuffer ? plural_text(count, "storage", "storages")
                             : plural_text(count, "record", "records");
}

void add_oddities(const archive::ZipReader& container, std::vector<std::string>* warnings) {
  const archive::ZipOddities& odd = container.oddities();
  if (odd.without_crc > 0)
    warnings->push_back(format("%" PRIu64 " records have no checksum, the first is \"%s\"",
                               odd.without_crc, odd.first_without_crc.c_str()));
  if (odd.outside_prefix > 0)
    warnings->push_back(
        format("%" PRIu64
               " files are not in the archive's folder and are passed over, the first is \"%s\"",
               odd.outside_prefix, odd.first_outside_prefix.c_str()));
}

void add_detail(const std::string& word, std::string* details) {
  *details += (details->empty() ? "" : ", ") + word;
}

void describe_tensor(const TensorValue& tensor, TensorFact* fact) {
  fact->dtype = tensor::scalar_type_info(tensor.type()).name;
  fact->sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  fact->nbytes = nbytes_of(tensor);
  add_tensor_details(tensor, &fact->details);
  if (tensor.layout() != value::TensorLayout::kStrided) return;
  fact->strides.assign(tensor.strides().begin(), tensor.strides().end());
  fact->offset = tensor.offset();
}

Result<ArchiveFacts> gather_archive(const ArchiveInput& input, archive::Check check) {
  ArchiveFacts facts;
  Result<Ref<archive::ZipSource>> source = archive::FileMapping::open(input.fd.get());
  if (!source.is_ok()) return of_file(input, source.status());
  facts.is_flatbuffer = input.is_flatbuffer();
  Result<Ref<archive::ZipReader>> container =
      facts.is_flatbuffer ? storages_of_flatbuffer(std::move(source).value())
                          : archive::ZipReader::open(std::move(source).value(), check);
  if (!container.is_ok()) return of_file(input, container.status());
  facts.container = std::move(container).value();
  facts.is_checkpoint = !facts.is_flatbuffer && is_checkpoint(*facts.container);
  if (facts.is_checkpoint) {
    facts.why_not_taken = gather_checkpoint(&facts);
  } else {
    facts.why_no_module = of_file(input, import_and_gather(input, check, &facts));
  }
  facts.why_not_taken = of_file(input, facts.why_not_taken);
  facts.why_no_bytecode = of_file(input, facts.why_no_bytecode);
  // A successful import has reported these oddities already.
  if (facts.root) return facts;
  add_oddities(*facts.container, &facts.warnings);
  return facts;
}

}  // namespace tenon::cli
