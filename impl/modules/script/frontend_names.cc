#include "modules/script/frontend_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "base/once.h"
#include "modules/script/nearest.h"
#include "modules/script/schema_parse.h"

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
static_assert(std::is_sorted(kGlobals.begin(), kGlobals.end(),
                             [](const Named& a, const Named& b) { return a.first < b.first; }));

constexpr auto kBuiltinAttributes = std::to_array<std::string_view>({
    "H",
    "T",
    "__getitem__",
    "byte",
    "cdouble",
    "cfloat",
    "char",
    "data",
    "device",
    "double",
    "dtype",
    "float",
    "grad",
    "half",
    "imag",
    "int",
    "is_cpu",
    "is_cuda",
    "is_ipu",
    "is_leaf",
    "is_maia",
    "is_meta",
    "is_mkldnn",
    "is_mps",
    "is_mtia",
    "is_nested",
    "is_ort",
    "is_quantized",
    "is_sparse",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "itemsize",
    "layout",
    "long",
    "mH",
    "mT",
    "name",
    "nbytes",
    "ndim",
    "real",
    "requires_grad",
    "retains_grad",
    "shape",
    "short",
    "tolist",
    "type",
});
static_assert(std::is_sorted(kBuiltinAttributes.begin(), kBuiltinAttributes.end()));

using Lines = std::pair<std::string_view, std::string_view>;

// These are from the schemas of all operators of PyTorch 1.13 and 2.15. Older versions alone have
// `eig`, `lstsq` and `solve`.
constexpr auto kResultNames = std::to_array<Lines>({
    {"aten::_amp_foreach_non_finite_check_and_unscale", "self_out,found_inf_out"},
    {"aten::_cudnn_attention_forward",
     "output,logsumexp,cum_seq_q,cum_seq_k,max_q,max_k,philox_seed,philox_offset,debug_attn_mask"},
    {"aten::_efficient_attention_forward",
     "output,logsumexp,philox_seed,philox_offset,max_seqlen_batch_q,max_seqlen_batch_k"},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "output,mask"},
    {"aten::_flash_attention_forward", "output,softmax_logsumexp,rng_state,unused,debug_attn_mask"},
    {"aten::_fused_adagrad", "self_out,grads_out,state_sums_out,state_steps_out"},
    {"aten::_fused_adam", "self_out,grads_out,exp_avgs_out,exp_avg_sqs_out,max_exp_avg_sqs_out"},
    {"aten::_fused_adamw", "self_out,grads_out,exp_avgs_out,exp_avg_sqs_out,max_exp_avg_sqs_out"},
    {"aten::_fused_moving_avg_obs_fq_helper", "output,mask"},
    {"aten::_fused_moving_avg_obs_fq_helper_functional",
     "output,mask,running_min_out,running_max_out,scale_out,zero_point_out"},
    {"aten::_fused_sgd", "self_out,grads_out,momentum_buffer_list_out"},
    {"aten::_linalg_det", "result,LU,pivots"},
    {"aten::_linalg_eigh", "eigenvalues,eigenvectors"},
    {"aten::_linalg_slogdet", "sign,logabsdet,LU,pivots"},
    {"aten::_linalg_solve_ex", "result,LU,pivots,info"},
    {"aten::_linalg_svd", "U,S,Vh"},
    {"aten::_lu_with_info", "LU,pivots,info"},
    {"aten::_scaled_dot_product_cudnn_attention",
     "output,logsumexp,cum_seq_q,cum_seq_k,max_q,max_k,philox_seed,philox_offset,debug_attn_mask"},
    {"aten::_scaled_dot_product_efficient_attention",
     "output,log_sumexp,philox_seed,philox_offset"},
    {"aten::_scaled_dot_product_flash_attention",
     "output,logsumexp,cum_seq_q,cum_seq_k,max_q,max_k,rng_state,unused,debug_attn_mask"},
    {"aten::_scaled_dot_product_flash_attention_backward", "grad_query,grad_key,grad_value"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "output,logsumexp"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     "grad_query,grad_key,grad_value"},
    {"aten::_scaled_dot_product_fused_attention_overrideable",
     "output,logsumexp,cum_seq_q,cum_seq_k,max_q,max_k,philox_seed,philox_offset,debug_attn_mask"},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     "grad_query,grad_key,grad_value,grad_attn_bias"},
    {"aten::_slow_conv2d_backward", "grad_input,grad_weight,grad_bias"},
    {"aten::_unpack_dual", "primal,tangent"},
    {"aten::aminmax", "min,max"},
    {"aten::convolution_backward_overrideable", "grad_input,grad_weight,grad_bias"},
    {"aten::cudnn_grid_sampler_backward", "grad_self,grad_grid"},
    {"aten::cummax", "values,indices"},
    {"aten::cummin", "values,indices"},
    {"aten::eig", "eigenvalues,eigenvectors"},
    {"aten::fake_quantize_per_channel_affine_cachemask", "output,mask"},
    {"aten::fake_quantize_per_tensor_affine_cachemask", "output,mask"},
    {"aten::frexp", "mantissa,exponent"},
    {"aten::geqrf", "a,tau"},
    {"aten::histogram", "hist,bin_edges"},
    {"aten::histogramdd", "hist,bin_edges"},
    {"aten::kthvalue", "values,indices"},
    {"aten::linalg_cholesky_ex", "L,info"},
    {"aten::linalg_eig", "eigenvalues,eigenvectors"},
    {"aten::linalg_eigh", "eigenvalues,eigenvectors"},
    {"aten::linalg_inv_ex", "inverse,info"},
    {"aten::linalg_ldl_factor", "LD,pivots"},
    {"aten::linalg_ldl_factor_ex", "LD,pivots,info"},
    {"aten::linalg_lstsq", "solution,residuals,rank,singular_values"},
    {"aten::linalg_lu", "P,L,U"},
    {"aten::linalg_lu_factor", "LU,pivots"},
    {"aten::linalg_lu_factor_ex", "LU,pivots,info"},
    {"aten::linalg_polar", "U,H"},
    {"aten::linalg_qr", "Q,R"},
    {"aten::linalg_slogdet", "sign,logabsdet"},
    {"aten::linalg_solve_ex", "result,info"},
    {"aten::linalg_svd", "U,S,Vh"},
    {"aten::log_sigmoid_forward", "output,buffer"},
    {"aten::lstsq", "solution,QR"},
    {"aten::lu_unpack", "P,L,U"},
    {"aten::max", "values,indices"},
    {"aten::median", "values,indices"},
    {"aten::min", "values,indices"},
    {"aten::mode", "values,indices"},
    {"aten::multilabel_margin_loss_forward", "output,is_target"},
    {"aten::nanmedian", "values,indices"},
    {"aten::nll_loss2d_forward", "output,total_weight"},
    {"aten::nll_loss_forward", "output,total_weight"},
    {"aten::qr", "Q,R"},
    {"aten::slogdet", "sign,logabsdet"},
    {"aten::solve", "solution,LU"},
    {"aten::sort", "values,indices"},
    {"aten::svd", "U,S,V"},
    {"aten::symeig", "eigenvalues,eigenvectors"},
    {"aten::topk", "values,indices"},
    {"aten::triangular_solve", "solution,cloned_coefficient"},
    {"quantized::conv1d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv2d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv3d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv_transpose1d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv_transpose2d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv_transpose3d_unpack", "unpacked_weights,B_origin"},
    {"quantized::conv_unpack", "unpacked_weights,B_origin"},
    {"quantized::linear_unpack", "W_origin,B_origin"},
    {"quantized::linear_unpack_fp16", "W_origin,B_origin"},
    {"sparse::qlinear_unpack", "W_origin,B_origin,block_pattern"},
});
static_assert(std::is_sorted(kResultNames.begin(), kResultNames.end()));

// These lines have the form of the schema table. Their two versions, a to z, span the whole table.
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
    {"aten::floordiv",
     " - a z Tensor self,Tensor other>Tensor\n - a z Tensor self,Scalar other>Tensor\n"},
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

constexpr auto kVersioned = std::to_array<std::string_view>(
    {"aten::div", "aten::div_", "aten::full", "aten::gelu", "aten::linspace", "aten::logspace"});

// This list was found by loading an archive with a call of each operator of prim. PyTorch 1.13
// and 2.15 say "required keyword attribute 'value' is undefined" and the like. PythonOp ends the
// process.
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
      std::lower_bound(kGlobals.begin(), kGlobals.end(), name,
                       [](const Named& entry, std::string_view key) { return entry.first < key; });
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

std::string_view result_names(std::string_view qualified_name) noexcept {
  const auto found =
      std::lower_bound(kResultNames.begin(), kResultNames.end(), qualified_name,
                       [](const Lines& entry, std::string_view key) { return entry.first < key; });
  return found != kResultNames.end() && found->first == qualified_name ? found->second
                                                                       : std::string_view();
}

bool is_result_name(std::string_view name) noexcept {
  return std::any_of(kResultNames.begin(), kResultNames.end(),
                     [&](const Lines& entry) { return find_result(entry.second, name); });
}

std::optional<size_t> find_result(std::string_view names, std::string_view name) noexcept {
  for (size_t at = 0; !names.empty(); ++at) {
    const size_t size = names.find(',');
    if (names.substr(0, size) == name) return at;
    if (size == std::string_view::npos) break;
    names.remove_prefix(size + 1);
  }
  return std::nullopt;
}

Overloads find_source_operator(std::string_view qualified_name) noexcept {
  const auto found =
      std::lower_bound(kSourceOperators.begin(), kSourceOperators.end(), qualified_name,
                       [](const Lines& entry, std::string_view key) { return entry.first < key; });
  return found != kSourceOperators.end() && found->first == qualified_name
             ? Overloads(found->second)
             : Overloads();
}

std::span<const Schema* const> source_schemas(std::string_view qualified_name) {
  const auto& all = immortal<SourceSchemas>().once.get(
      [] { return std::make_unique<const SchemasByName>(parsed_source_operators()); });
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
