//go:build cgo && linux

#define _GNU_SOURCE
#include "loop.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	bool progress_thread, listen_thread;
	int port, sync;
	unsigned workers;
	uint64_t progress_us, listen_us;
	bool telemetry;
} config;

static void *library;

#define CALL(name) ((int (*)())dlsym(library, "nixl_capi_" name))

static int add_agent(loop_pair *p, int i, const char *name, uintptr_t at, size_t size) {
	config c = {.progress_thread = true, .sync = 2, .workers = 1, .progress_us = 2000};
	void *params = NULL, *memory = NULL;
	if (CALL("create_configured_agent")(name, &c, &p->agents[i])) return 1;
	if (CALL("create_params")(&params)) return 2;
	if (CALL("create_backend")(p->agents[i], "UCX", params, &p->backends[i])) return 3;
	CALL("destroy_params")(params);
	if (CALL("create_reg_dlist")(0, &memory)) return 4;
	if (CALL("reg_dlist_add_desc")(memory, at, size, (uint64_t)0, NULL, (size_t)0)) return 5;
	if (CALL("register_mem")(p->agents[i], memory, NULL)) return 6;
	CALL("destroy_reg_dlist")(memory);
	return 0;
}

static int add_list(loop_pair *p, int i, const char *name, uintptr_t at, size_t n, size_t run, size_t stride) {
	void *list = NULL;
	if (CALL("create_xfer_dlist")(0, &list)) return 7;
	for (size_t k = 0; k < n; k++) CALL("xfer_dlist_add_desc")(list, at + k * stride, run, (uint64_t)0);
	int s = CALL("prep_xfer_dlist")(p->agents[0], name, list, &p->lists[i], NULL);
	CALL("destroy_xfer_dlist")(list);
	return s ? 8 : 0;
}

int loop_open(const char *path, uintptr_t local, uintptr_t remote, size_t size, size_t n, size_t run, size_t stride, loop_pair *p) {
	memset(p, 0, sizeof(*p));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) return 9;
	void *metadata = NULL;
	size_t len = 0;
	char *name = NULL;
	int s = add_agent(p, 0, "loop-local", local, size);
	if (!s) s = add_agent(p, 1, "loop-remote", remote, size);
	if (s) return s;
	if (CALL("get_local_md")(p->agents[1], &metadata, &len)) return 10;
	if (CALL("load_remote_md")(p->agents[0], metadata, len, &name)) return 11;
	free(metadata);
	free(name);
	s = add_list(p, 0, "", local, n, run, stride);
	return s ? s : add_list(p, 1, "loop-remote", remote, n, run, stride);
}

void loop_close(loop_pair *p) {
	for (int i = 0; i < 2; i++) {
		if (p->lists[i]) CALL("release_xfer_dlist_handle")(p->agents[0], p->lists[i]);
	}
	for (int i = 0; i < 2; i++) {
		if (p->agents[i]) CALL("destroy_agent")(p->agents[i]);
		if (p->backends[i]) CALL("destroy_backend")(p->backends[i]);
	}
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

int loop_once(loop_pair *p, const int *indices, size_t n, int64_t *posted_ns, int64_t *ended_ns) {
	int (*make)(void *, int, void *, const int *, size_t, void *, const int *, size_t, void **, void *) = dlsym(library, "nixl_capi_make_xfer_req");
	int (*post)(void *, void *, void *) = dlsym(library, "nixl_capi_post_xfer_req");
	int (*status)(void *, void *) = dlsym(library, "nixl_capi_get_xfer_status");
	void *request = NULL;
	int64_t start = now();
	int s = make(p->agents[0], 1, p->lists[0], indices, n, p->lists[1], indices, n, &request, NULL);
	if (s == 0) s = post(p->agents[0], request, NULL);
	*posted_ns = now() - start;
	while (s == 1) s = status(p->agents[0], request);
	*ended_ns = now() - start;
	if (!request) return s;
	CALL("release_xfer_req")(p->agents[0], request);
	CALL("destroy_xfer_req")(request);
	return s;
}
