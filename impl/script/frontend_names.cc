#include "script/frontend_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/once.h"
#include "script/nearest.h"
#include "script/schema_parse.h"

namespace tenon::script {
namespace {

using Named = std::pair<std::string_view, Global>;

constexpr auto kGlobals = std::to_array<Named>({
    {"AssertionError", Global::kException},
    {"CONSTANTS", Global::kConstants},
    {"__torch__", Global::kQualified},
    {"abs", Global::kOperator},
    {"all", Global::kOperator},
    {"annotate", Global::kAnnotate},
    {"any", Global::kOperator},
    {"awaitable", Global::kFork},
    {"bin", Global::kOperator},
    {"bool", Global::kCast},
    {"chr", Global::kOperator},
    {"complex", Global::kCast},
    {"dict", Global::kIterable},
    {"divmod", Global::kOperator},
    {"enumerate", Global::kIterable},
    {"float", Global::kCast},
    {"fork", Global::kFork},
    {"getattr", Global::kGetAttr},
    {"hasattr", Global::kHasAttr},
    {"hash", Global::kOperator},
    {"hex", Global::kOperator},
    {"id", Global::kOperator},
    {"inf", Global::kNumber},
    {"infj", Global::kNumber},
    {"int", Global::kCast},
    {"isinstance", Global::kIsInstance},
    {"len", Global::kOperator},
    {"list", Global::kIterable},
    {"max", Global::kOperator},
    {"min", Global::kOperator},
    {"nan", Global::kNumber},
    {"nanj", Global::kNumber},
    {"oct", Global::kOperator},
    {"ops", Global::kOps},
    {"ord", Global::kOperator},
    {"pow", Global::kOperator},
    {"print", Global::kPrint},
    {"range", Global::kIterable},
    {"rangelist", Global::kIterable},
    {"round", Global::kOperator},
    {"sorted", Global::kOperator},
    {"str", Global::kCast},
    {"sum", Global::kOperator},
    {"torch", Global::kTorch},
    {"tuple", Global::kIterable},
    {"unchecked_cast", Global::kUncheckedCast},
    {"uninitialized", Global::kUninitialized},
    {"zip", Global::kIterable},
});
static_assert(std::is_sorted(kGlobals.begin(), kGlobals.end(), [](const Named& a, const Named& b) { return a.first < b.first; }));

constexpr auto kBuiltinAttributes = std::to_array<std::string_view>({
    "H",         "T",       "__getitem__",  "byte",      "cdouble",       "cfloat",
    "char",      "data",    "device",       "double",    "dtype",         "float",
    "grad",      "half",    "int",          "is_cpu",    "is_cuda",       "is_ipu",
    "is_leaf",   "is_maia", "is_meta",      "is_mkldnn", "is_mps",        "is_mtia",
    "is_nested", "is_ort",  "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
    "is_xla",    "is_xpu",  "itemsize",     "layout",    "long",          "mH",
    "mT",        "name",    "nbytes",       "ndim",      "requires_grad", "retains_grad",
    "shape",     "short",   "tolist",       "type",
});
static_assert(std::is_sorted(kBuiltinAttributes.begin(), kBuiltinAttributes.end()));

using Lines = std::pair<std::string_view, std::string_view>;

// In the form of the schema table; the two versions are the whole table's.
constexpr auto kSourceOperators = std::to_array<Lines>({
    {"aten::__contains__", " - a z str self,str key>bool\n"},
    {"aten::_assert", " - a z bool condition,str message>\n - a z Tensor condition,str message>\n"},
    {"aten::_assert_int_or_pair", " - a z int[] vals,str name,str message>\n"},
    {"aten::_pair", " - a z int[2] x>int[]\n - a z float[2] x>float[]\n"},
    {"aten::_quadruple", " - a z int[4] x>int[]\n - a z float[4] x>float[]\n"},
    {"aten::_single", " - a z int[1] x>int[]\n - a z float[1] x>float[]\n"},
    {"aten::_triple", " - a z int[3] x>int[]\n - a z float[3] x>float[]\n"},
    {"aten::add", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::device", " - a z str type>Device\n"},
    {"aten::div", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::eq", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::floordiv", " - a z Tensor self,Tensor other>Tensor\n - a z Tensor self,Scalar other>Tensor\n"},
    {"aten::ge", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::gt", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::le", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::list_with_default", " - a z int[] out_size,int[] defaults>int[]\n"},
    {"aten::lt", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::mul", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::ne", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::sub", " - a z Scalar a,Tensor b>Tensor\n"},
    {"aten::type", " - a z Tensor self,int dtype,bool non_blocking=False,bool copy=False>Tensor\n"},
    {"prim::H", " - a z Tensor a>Tensor\n"},
    {"prim::T", " - a z Tensor a>Tensor\n"},
    {"prim::mH", " - a z Tensor a>Tensor\n"},
    {"prim::mT", " - a z Tensor a>Tensor\n"},
    {"prim::ndim", " - a z Tensor a>int\n"},
    {"prim::shape", " - a z Tensor a>int[]\n"},
});
static_assert(std::is_sorted(kSourceOperators.begin(), kSourceOperators.end()));

struct SchemasOfName {
  std::vector<std::unique_ptr<const Schema>> kept;
  std::vector<const Schema*> pointers;
};
using SchemasByName = std::map<std::string_view, SchemasOfName>;

struct SourceSchemas {
  Once<const SchemasByName> once;
};

SchemasByName parsed_source_operators() {
  SchemasByName all;
  for (const auto& [name, lines] : kSourceOperators) {
    Overloads overloads(lines);
    for (Overload overload; overloads.next(&overload);) {
      auto schema = std::make_unique<Schema>();
      if (!parse_schema(name, overload.name, overload.arguments, schema.get())) continue;
      SchemasOfName& here = all[name];
      here.pointers.push_back(schema.get());
      here.kept.push_back(std::move(schema));
    }
  }
  return all;
}

constexpr auto kVersioned =
    std::to_array<std::string_view>({"aten::div", "aten::div_", "aten::full", "aten::gelu", "aten::linspace", "aten::logspace"});

// Found by loading an archive with a call of each operator of prim: PyTorch 1.13 and 2.15 say "required
// keyword attribute 'value' is undefined" and the like. PythonOp ends the process.
constexpr auto kOfGraphsAlone = std::to_array<std::string_view>({
    "prim::BailOut",
    "prim::BroadcastMKLDNNTensors",
    "prim::ChunkSizes",
    "prim::ConstantChunk",
    "prim::ConstantMKLDNNTensor",
    "prim::CudaFusionGroup",
    "prim::DifferentiableGraph",
    "prim::FallbackGraph",
    "prim::FusedConcat",
    "prim::FusionGroup",
    "prim::MKLDNNClamp",
    "prim::MKLDNNClamp_",
    "prim::MKLDNNHardTanh",
    "prim::MKLDNNHardTanh_",
    "prim::MMBatchSide",
    "prim::PythonOp",
    "prim::RequiresGradCheck",
    "prim::StaticSubgraph",
    "prim::TensorExprDynamicGroup",
    "prim::TensorExprDynamicGuard",
    "prim::TensorExprGroup",
    "prim::TypeCheck",
    "prim::oneDNNFusionGroup",
    "prim::profile",
    "prim::profile_ivalue",
});
static_assert(std::is_sorted(kOfGraphsAlone.begin(), kOfGraphsAlone.end()));

}  // namespace

std::optional<Global> find_global(std::string_view name) noexcept {
  const auto found =
      std::lower_bound(kGlobals.begin(), kGlobals.end(), name, [](const Named& entry, std::string_view key) { return entry.first < key; });
  if (found == kGlobals.end() || found->first != name) return std::nullopt;
  return found->second;
}

std::string_view nearest_global(std::string_view name) {
  Nearest nearest(name);
  for (const Named& entry : kGlobals) nearest.consider(entry.first);
  return nearest.best();
}

bool is_builtin_attribute(std::string_view name) noexcept {
  return std::binary_search(kBuiltinAttributes.begin(), kBuiltinAttributes.end(), name);
}

Overloads find_source_operator(std::string_view qualified_name) noexcept {
  const auto found = std::lower_bound(kSourceOperators.begin(), kSourceOperators.end(), qualified_name,
                                      [](const Lines& entry, std::string_view key) { return entry.first < key; });
  return found != kSourceOperators.end() && found->first == qualified_name ? Overloads(found->second) : Overloads();
}

std::span<const Schema* const> source_schemas(std::string_view qualified_name) {
  const auto& all = immortal<SourceSchemas>().once.get([] { return std::make_unique<const SchemasByName>(parsed_source_operators()); });
  const auto found = all.find(qualified_name);
  if (found == all.end()) return {};
  return found->second.pointers;
}

bool exists_in_graphs_alone(std::string_view qualified_name) noexcept {
  return std::binary_search(kOfGraphsAlone.begin(), kOfGraphsAlone.end(), qualified_name);
}

bool depends_on_archive_version(std::string_view qualified_name) noexcept {
  return std::find(kVersioned.begin(), kVersioned.end(), qualified_name) != kVersioned.end();
}

}  // namespace tenon::script
