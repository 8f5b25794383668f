#include "composite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../composite_parts.h"
#include "support/sized.h"
#include "wire.h"

enum { FIRST_PART = 12 /* words stand before the parts */ };

static tenon_dtype read_dtype(const char *word) {
  unsigned code, bits, lanes;
  tenon_dtype dtype;
  if (sscanf(word, "%u:%u:%u", &code, &bits, &lanes) != 3) abort();
  dtype.code = (uint8_t)code;
  dtype.bits = (uint8_t)bits;
  dtype.lanes = (uint16_t)lanes;
  return dtype;
}

static void put_dtype(char *line, tenon_dtype dtype) {
  wire_put(line, "%u:%u:%u", (unsigned)dtype.code, (unsigned)dtype.bits, (unsigned)dtype.lanes);
}

/* DTYPE/SIZES/CONTENT */
static tenon_status read_part(const char *word, tenon_tensor **out, tenon_error **error) {
  const char *sizes_word = strchr(word, '/'), *content = strrchr(word, '/');
  char room[256];
  int64_t sizes[WIRE_NDIM];
  size_t nbytes;
  unsigned char *bytes;
  tenon_storage *storage = NULL;
  tenon_tensor_spec spec;
  tenon_status status;
  if (sizes_word == NULL || sizes_word == content) abort();
  snprintf(room, sizeof(room), "%.*s", (int)(content - sizes_word - 1), sizes_word + 1);
  SIZED(spec);
  spec.dtype = read_dtype(word);
  spec.ndim = wire_numbers(room, sizes);
  spec.sizes = sizes;
  bytes = wire_bytes(content + 1, &nbytes);
  status = tenon_storage_new_from(NULL, bytes, nbytes, &storage, error);
  if (status == TENON_OK) status = tenon_tensor_new(storage, &spec, out, error);
  tenon_storage_release(storage);
  free(bytes);
  return status;
}

tenon_status composite_read_words(const char **words, tenon_composite **out, tenon_error **error) {
  int64_t sizes[WIRE_NDIM], strides[WIRE_NDIM];
  tenon_composite_spec spec;
  tenon_status status = TENON_OK;
  size_t i;
  int w;
  SIZED(spec);
  spec.layout = (int32_t)atol(words[0]);
  spec.ndim = wire_numbers(words[1], sizes);
  spec.sizes = sizes;
  spec.strides = wire_numbers(words[2], strides) == 0 ? NULL : strides;
  spec.offset = strtoull(words[3], NULL, 10);
  spec.dtype = read_dtype(words[4]);
  spec.flags = (uint32_t)strtoul(words[5], NULL, 10);
  spec.scale = strtod(words[6], NULL);
  spec.zero_point = strtoll(words[7], NULL, 10);
  spec.axis = (int32_t)atol(words[8]);
  spec.ragged_dim = (int32_t)atol(words[9]);
  spec.quantizer = (int32_t)atol(words[10]);
  spec.coalesced = (int32_t)atol(words[11]);
  for (w = FIRST_PART; status == TENON_OK && words[w][0] != '\0'; w++) {
    const size_t length = strcspn(words[w], "=");
    for (i = 0; i < N_COMPOSITE_PARTS && (strlen(composite_parts[i].name) != length ||
                                          strncmp(composite_parts[i].name, words[w], length) != 0);)
      i++;
    if (i == N_COMPOSITE_PARTS || words[w][length] == '\0') abort();
    status = read_part(words[w] + length + 1, composite_part(&spec, i), error);
  }
  if (status == TENON_OK) status = tenon_composite_new(&spec, out, error);
  for (i = 0; i < N_COMPOSITE_PARTS; i++) tenon_tensor_release(*composite_part(&spec, i));
  return status;
}

void composite_put_words(char *line, const tenon_composite *composite,
                         void (*put_content)(tenon_tensor *tensor)) {
  char sizes[256], strides[256];
  tenon_composite_spec spec;
  tenon_tensor_view view;
  size_t i;
  spec.struct_size = sizeof(spec);
  if (tenon_composite_get_spec(composite, &spec, NULL) != TENON_OK) abort();
  wire_put(line, "%d %s %s %llu ", (int)spec.layout, wire_word(spec.sizes, spec.ndim, sizes),
           wire_word(spec.strides, spec.strides == NULL ? 0 : spec.ndim, strides),
           (unsigned long long)spec.offset);
  put_dtype(line, spec.dtype);
  wire_put(line, " %u %.17g %lld %d %d %d %d", (unsigned)spec.flags, spec.scale,
           (long long)spec.zero_point, (int)spec.axis, (int)spec.ragged_dim, (int)spec.quantizer,
           (int)spec.coalesced);
  for (i = 0; i < N_COMPOSITE_PARTS; i++) {
    tenon_tensor *part = *composite_part(&spec, i);
    if (part == NULL) continue;
    view.struct_size = sizeof(view);
    if (tenon_tensor_get_view(part, &view, NULL) != TENON_OK) abort();
    wire_put(line, " %s=", composite_parts[i].name);
    put_dtype(line, view.dtype);
    wire_put(line, "/%s/", wire_word(view.sizes, view.ndim, sizes));
    put_content(part);
  }
}
