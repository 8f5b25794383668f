/* Reads a borrowed tensor and writes to it. Its standard input is a socket to the lender. */
#include "start.h"

int main(void) {
  tenon_connection *lender;
  tenon_message *message, *answer, *more;
  void *data;
  check(tenon_connection_new(STDIN_FILENO, NULL, &lender, &err));
  check(tenon_recv(lender, NULL, &message, &err));
  tenon_tensor *weights = tenon_message_find(message, "weights");
  printf("borrower: the first weight is %g\n", *(const float *)tenon_tensor_data(weights));
  if (tenon_tensor_data_mut(weights, &data, &err) == TENON_OK) {
    *(float *)data = 42;
  } else {
    printf("borrower: cannot write: %s\n", tenon_error_message(err));
    tenon_error_release(err);
  }
  check(tenon_message_new(&answer, &err));
  check(tenon_send(lender, answer, NULL, &err)); /* the borrower is done */
  /* Waits until the lender closes the connection. */
  if (tenon_recv(lender, NULL, &more, NULL) != TENON_PEER_GONE) return 1;
  tenon_message_release(answer);
  tenon_message_release(message);
  tenon_connection_release(lender);
  return 0;
}
