/* Sends a message of multiprocessing so that the sender learns when nobody will read it.
   tenon/_mp_carrier.py calls this file. Over a socket the message carries a marker: the write end
   of a pipe, whose read end the sender keeps. A queue is itself a pipe, so the sender duplicates
   its write end. */
#include "ext.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_shortage(int error) {
  return error == ETOOMANYREFS || error == EMFILE || error == ENFILE || error == ENOMEM ||
         error == ENOBUFS;
}

static ssize_t send_both(int fd, struct iovec *parts, int marker) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control.room;
  message.msg_controllen = sizeof control.room;
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), &marker, sizeof marker);
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* send_with_marker(fd, header, message) -> (how many bytes of header and message were sent, the
   read end). None means that no marker is available now, and that nothing was sent. */
PyObject *send_with_marker(PyObject *module UNUSED, PyObject *args) {
  int fd;
  Py_buffer header, body;
  if (!PyArg_ParseTuple(args, "iy*y*:send_with_marker", &fd, &header, &body)) return NULL;
  int ends[2] = {-1, -1};
  PyObject *result = NULL;
  int error = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
  ssize_t sent = -1;
  while (error == 0 && sent < 0) {
    struct iovec parts[2] = {{header.buf, (size_t)header.len}, {body.buf, (size_t)body.len}};
    Py_BEGIN_ALLOW_THREADS
      sent = send_both(fd, parts, ends[1]);
      error = sent < 0 ? errno : 0;
    Py_END_ALLOW_THREADS
    if (error == EINTR && PyErr_CheckSignals() == 0) error = 0;
  }
  if (ends[1] >= 0) close(ends[1]);
  if (sent >= 0)
    result = Py_BuildValue("(ni)", (Py_ssize_t)sent, ends[0]);
  else if (is_shortage(error))
    result = Py_NewRef(Py_None);
  else if (!PyErr_Occurred()) {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
  }
  if ((sent < 0 || result == NULL) && ends[0] >= 0) close(ends[0]);
  PyBuffer_Release(&header);
  PyBuffer_Release(&body);
  return result;
}

/* watch_queue(the write end, ticket, nanoseconds): takes the message back this long after no
   process has the read end. If there is no free fd, or if too many messages are watched, only the
   limits apply to the message. */
PyObject *watch_queue(PyObject *module UNUSED, PyObject *args) {
  int fd;
  const char *ticket;
  Py_ssize_t nbytes;
  long long grace_ns;
  if (!PyArg_ParseTuple(args, "iy#L:watch_queue", &fd, &ticket, &nbytes, &grace_ns)) return NULL;
  const int end = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (end >= 0 && tenon_ticket_watch(ticket, (size_t)nbytes, end, grace_ns, NULL) != TENON_OK)
    close(end);
  Py_RETURN_NONE;
}
