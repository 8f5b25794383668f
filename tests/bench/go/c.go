package main

/*
#cgo pkg-config: tenon
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

static int64_t now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void ok(tenon_status status, tenon_error *err) {
	if (status == TENON_OK) return;
	fprintf(stderr, "wrapper_go: %s\n", tenon_error_message(err));
	exit(1);
}

static tenon_storage *storage;
static tenon_tensor *tensor;
static tenon_fd_handle handle = {sizeof handle, -1, 0, 0, 0, 0};
static tenon_connection *here, *there;
static const int64_t sizes[] = {1024};
static const tenon_tensor_spec spec = {
	sizeof spec, {TENON_DTYPE_FLOAT, 32, 1}, 1, sizes, NULL, 0, 0, 0,
};
static volatile float seen;

static void begin(int first, int second) {
	tenon_error *err = NULL;
	ok(tenon_storage_new(NULL, 4096, &storage, &err), err);
	ok(tenon_tensor_new(storage, &spec, &tensor, &err), err);
	ok(tenon_share_fd(storage, NULL, &handle, &err), err);
	ok(tenon_connection_new(first, NULL, &here, &err), err);
	ok(tenon_connection_new(second, NULL, &there, &err), err);
}

static void new_storage(void) {
	tenon_error *err = NULL;
	tenon_storage *made = NULL;
	ok(tenon_storage_new(NULL, 4096, &made, &err), err);
	tenon_storage_release(made);
}

static void new_tensor(void) {
	tenon_error *err = NULL;
	tenon_tensor *made = NULL;
	ok(tenon_tensor_new(storage, &spec, &made, &err), err);
	tenon_tensor_release(made);
}

static void view(void) {
	tenon_error *err = NULL;
	tenon_tensor_view view = {sizeof view};
	ok(tenon_tensor_get_view(tensor, &view, &err), err);
	seen = *(const float *)view.data;
}

static void retain(void) { tenon_tensor_release(tenon_tensor_retain(tensor)); }

static void share(void) {
	tenon_error *err = NULL;
	tenon_fd_handle made = {sizeof made, -1, 0, 0, 0, 0};
	ok(tenon_share_fd(storage, NULL, &made, &err), err);
	tenon_fd_handle_close(&made);
}

static void open_known(void) {
	tenon_error *err = NULL;
	tenon_storage *made = NULL;
	ok(tenon_open_fd(&handle, NULL, &made, &err), err);
	tenon_storage_release(made);
}

static void send_and_receive(void) {
	tenon_error *err = NULL;
	tenon_message *message = NULL;
	const char *name = "weight";
	ok(tenon_message_new(&message, &err), err);
	ok(tenon_message_add(message, &tensor, &name, 1, NULL, &err), err);
	ok(tenon_send(here, message, NULL, &err), err);
	tenon_message_release(message);
	ok(tenon_recv(there, NULL, &message, &err), err);
	tenon_message_release(message);
}

static void (*const calls[])(void) = {
	new_storage, new_tensor, view, retain, share, open_known, send_and_receive,
};

static double ns_each(int which, int n) {
	int64_t begin = now_ns();
	for (int i = 0; i < n; i++) calls[which]();
	return (double)(now_ns() - begin) / n;
}

static void put(int fd) {
	tenon_error *err = NULL;
	ok(tenon_connection_new(fd, NULL, &there, &err), err);
}

// Milliseconds from the call that receives until each tensor was read.
static double receive_all(void) {
	int64_t begin = now_ns();
	tenon_error *err = NULL;
	tenon_message *message = NULL;
	ok(tenon_recv(there, NULL, &message, &err), err);
	size_t n = tenon_message_count(message);
	tenon_tensor_view *views = malloc(n * sizeof *views);
	views[0].struct_size = sizeof *views;
	ok(tenon_message_get_views(message, views, n, &err), err);
	for (size_t i = 0; i < n; i++) seen = *(const float *)views[i].data;
	free(views);
	tenon_message_release(message);
	return (double)(now_ns() - begin) / 1e6;
}
*/
import "C"

// beginC and nsEachC do the same work in C, through the header. Each loop is one call, so that Go
// adds nothing to it.
func beginC(first, second int)         { C.begin(C.int(first), C.int(second)) }
func nsEachC(which, calls int) float64 { return float64(C.ns_each(C.int(which), C.int(calls))) }
func connectC(fd int)                  { C.put(C.int(fd)) }
func receiveC() (milliseconds float64) { return float64(C.receive_all()) }
