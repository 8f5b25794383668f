/* Builds a multilayer perceptron by hand and writes it as a file that torch.jit.load runs,
 * without PyTorch. usage: export_mlp [FILE] */
#include <inttypes.h>
#include <stdio.h>
#include <tenon/tenon.h>

enum { kMostElements = 64 };

/* Adds a float32 parameter of out x in elements, or of out if in is 0. Its weights are plain
 * numbers. */
static tenon_status add_parameter(tenon_module *layer, const char *name, int64_t out, int64_t in,
                                  tenon_error **err) {
  float elements[kMostElements];
  int64_t sizes[] = {out, in}, numel = in == 0 ? out : out * in;
  tenon_tensor_spec spec = {sizeof spec,
                            {TENON_DTYPE_FLOAT, 32, 1},
                            in == 0 ? 1 : 2,
                            sizes,
                            NULL,
                            0,
                            TENON_TENSOR_REQUIRES_GRAD,
                            0};
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_value *value = NULL;
  for (int64_t i = 0; i < numel; i++) elements[i] = 0.25F * (float)(i % 7 - 3);
  tenon_status status =
      tenon_storage_new_from(NULL, elements, (uint64_t)numel * sizeof(float), &storage, err);
  if (status == TENON_OK) status = tenon_tensor_new(storage, &spec, &tensor, err);
  if (status == TENON_OK) status = tenon_value_new_tensor(tensor, &value, err);
  if (status == TENON_OK) status = tenon_module_add_parameter(layer, name, value, err);
  tenon_value_release(value); /* the module has its own references */
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return status;
}

static tenon_status add_linear(tenon_module *mlp, const char *name, int64_t in, int64_t out,
                               tenon_error **err) {
  tenon_module *layer = NULL;
  tenon_status status = tenon_module_new("layers.Linear", &layer, err);
  if (status == TENON_OK) status = add_parameter(layer, "weight", out, in, err);
  if (status == TENON_OK) status = add_parameter(layer, "bias", out, 0, err);
  if (status == TENON_OK) {
    status = tenon_module_define(layer,
                                 "def forward(self, x: Tensor) -> Tensor:\n"
                                 "  return torch.linear(x, self.weight, self.bias)\n",
                                 err);
  }
  if (status == TENON_OK) status = tenon_module_add_submodule(mlp, name, layer, NULL, err);
  tenon_module_release(layer);
  return status;
}

int main(int argc, char **argv) {
  const char *file = argc > 1 ? argv[1] : "mlp.pt";
  tenon_module *mlp = NULL;
  tenon_error *err = NULL;
  tenon_export_report report = {.struct_size = sizeof report};
  tenon_status status = tenon_module_new("MLP", &mlp, &err);
  if (status == TENON_OK) status = add_linear(mlp, "fc1", 4, 8, &err);
  if (status == TENON_OK) status = add_linear(mlp, "fc2", 8, 3, &err);
  if (status == TENON_OK) {
    status = tenon_module_define(mlp,
                                 "def forward(self, x: Tensor) -> Tensor:\n"
                                 "  return self.fc2.forward(torch.relu(self.fc1.forward(x)))\n",
                                 &err);
  }
  if (status == TENON_OK)
    status = tenon_module_set_extra_file(mlp, "labels.txt", "cat\ndog\nowl\n", 12, &err);
  if (status == TENON_OK) status = tenon_export_module(mlp, file, NULL, &report, &err);
  if (status == TENON_OK) {
    printf("%s: %" PRIu64 " records, %" PRIu64 " bytes, for PyTorch %s and later\n", file,
           report.records, report.nbytes, report.oldest_pytorch);
  } else {
    fprintf(stderr, "export_mlp: %s\n", tenon_error_message(err));
    tenon_error_release(err);
  }
  tenon_module_release(mlp);
  return status == TENON_OK ? 0 : 1;
}
