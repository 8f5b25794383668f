/* Objects as the driver's words describe them (tests/languages/matrix/README.md, "Objects"). */
#ifndef TENON_TESTS_MATRIX_OBJECT_H
#define TENON_TESTS_MATRIX_OBJECT_H

#include <tenon/tenon.h>

/* Makes the object of a word. find() puts the tensor or composite of a key into the node. */
tenon_status object_read_word(const char *word,
                              void (*find)(const char *key, tenon_object_node *node),
                              tenon_object **out, tenon_error **error);
/* All nodes of an object, which the caller must free. The object must live as long as the nodes. */
tenon_object_node *object_nodes(const tenon_object *object, size_t *n);
/* Appends the word of a node. `key` holds its tensor or composite. put_content appends elements. */
void object_put_node(char *line, const tenon_object_node *node, const char *key,
                     void (*put_content)(tenon_tensor *tensor));

#endif
