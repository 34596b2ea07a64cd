//go:build cgo && linux

#define _GNU_SOURCE
#include "nixl.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

// What UCX reads when it is loaded. What the environment says already stays.
void sy_settings(void) {
	setenv("UCX_LOG_FILE", "stderr", 0);       // its log goes to stdout otherwise
	setenv("UCX_HANDLE_ERRORS", "none", 0);    // SIGSEGV and others belong to Go
	setenv("UCX_TCP_TX_SEG_SIZE", "64k", 0);   // puts over TCP are 3 times as fast as with 8k
	setenv("UCX_TCP_RX_SEG_SIZE", "64k", 0);
}

// dlerror's text belongs to the thread, so it is taken in the same call. UCX cannot be
// unloaded, so the library stays.
void *sy_open(const char *path, char **error) {
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const char *text = handle ? NULL : dlerror();
	*error = text ? strdup(text) : NULL;
	return handle;
}

const char *sy_path(void *handle) {
	struct link_map *map = NULL;
	return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : NULL;
}

const char *sy_resolve(void *handle, sy_table *table) {
#define SY_RESOLVE(name, params) \
	*(void **)&table->name = dlsym(handle, "nixl_capi_" #name); \
	if (!table->name) return "nixl_capi_" #name;
	SY_CALLS(SY_RESOLVE)
	return NULL;
}

const char *sy_symbol(size_t i) {
#define SY_NAME(name, params) "nixl_capi_" #name,
	static const char *const names[] = {SY_CALLS(SY_NAME) NULL};
	return i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
}

static int create_backend(sy_agent *a) {
	void *params = NULL;
	int s = a->calls->create_params(&params);
	if (s != SY_SUCCESS) return s;
	s = a->calls->params_add(params, "ucx_error_handling_mode", "peer");
	if (s == SY_SUCCESS) s = a->calls->create_backend(a->agent, "UCX", params, &a->backend);
	a->calls->destroy_params(params);
	if (s == SY_SUCCESS) s = a->calls->create_opt_args(&a->args);
	if (s == SY_SUCCESS) s = a->calls->opt_args_add_backend(a->args, a->backend);
	if (s == SY_SUCCESS) s = a->calls->create_notif_map(&a->notifs);
	return s;
}

int sy_create_agent(const sy_table *calls, const char *name, uint64_t interval_us, sy_agent *out) {
	sy_config config = {
		.enable_prog_thread = true, .thread_sync = SY_SYNC_RW, .num_workers = 1, .pthr_delay_us = interval_us,
	};
	memset(out, 0, sizeof(*out));
	out->calls = calls;
	int s = calls->create_configured_agent(name, &config, &out->agent);
	if (s != SY_SUCCESS) return s;
	s = create_backend(out);
	if (s != SY_SUCCESS) sy_destroy_agent(out);
	return s;
}

int sy_destroy_agent(sy_agent *a) {
	if (a->notifs) a->calls->destroy_notif_map(a->notifs);
	if (a->args) a->calls->destroy_opt_args(a->args);
	int s = a->calls->destroy_agent(a->agent);
	if (a->backend) a->calls->destroy_backend(a->backend); // the handle; the agent owned what is behind it
	return s;
}

int sy_register(sy_agent *a, sy_region r, size_t bytes, bool on) {
	void *list = NULL;
	int s = a->calls->create_reg_dlist(r.mem, &list);
	if (s != SY_SUCCESS) return s;
	s = a->calls->reg_dlist_add_desc(list, r.base, bytes, r.device, NULL, 0);
	if (s == SY_SUCCESS) {
		s = on ? a->calls->register_mem(a->agent, list, a->args) : a->calls->deregister_mem(a->agent, list, a->args);
	}
	a->calls->destroy_reg_dlist(list);
	return s;
}

int sy_local_md(sy_agent *a, void **data, size_t *len) { return a->calls->get_local_md(a->agent, data, len); }

int sy_load_md(sy_agent *a, const void *data, size_t len, char **name) {
	return a->calls->load_remote_md(a->agent, data, len, name);
}

int sy_invalidate_md(sy_agent *a, const char *name) { return a->calls->invalidate_remote_md(a->agent, name); }

int sy_prepare(sy_agent *a, const char *name, sy_region r, const sy_span *runs, size_t n, void **handle) {
	void *list = NULL;
	int s = a->calls->create_xfer_dlist(r.mem, &list);
	if (s != SY_SUCCESS) return s;
	for (size_t i = 0; i < n && s == SY_SUCCESS; i++) {
		s = a->calls->xfer_dlist_add_desc(list, r.base + runs[i].offset, runs[i].bytes, r.device);
	}
	if (s == SY_SUCCESS) s = a->calls->prep_xfer_dlist(a->agent, name, list, handle, a->args);
	a->calls->destroy_xfer_dlist(list);
	return s;
}

int sy_release_list(sy_agent *a, void *handle) { return a->calls->release_xfer_dlist_handle(a->agent, handle); }

int sy_make(sy_agent *a, int op, void *local, const int *li, void *remote, const int *ri, size_t n, void **req) {
	return a->calls->make_xfer_req(a->agent, op, local, li, n, remote, ri, n, req, a->args);
}

// add_pairs adds the copies that are not empty, those that continue the one before on both sides
// as one: a copy costs UCX as much as some 10 KiB.
static int add_pairs(sy_agent *a, void *l, sy_region local, void *r, sy_region remote, const sy_copy *copies, size_t n) {
	sy_copy run = {{0, 0}, {0, 0}};
	int s = SY_SUCCESS;
	for (size_t i = 0; i <= n && s == SY_SUCCESS; i++) {
		const sy_copy *c = &copies[i];
		if (i < n && c->local.bytes == 0) continue;
		if (i < n && c->local.offset == run.local.offset + run.local.bytes && c->remote.offset == run.remote.offset + run.local.bytes) {
			run.local.bytes += c->local.bytes;
			continue;
		}
		if (run.local.bytes > 0) {
			s = a->calls->xfer_dlist_add_desc(l, local.base + run.local.offset, run.local.bytes, local.device);
			if (s == SY_SUCCESS) {
				s = a->calls->xfer_dlist_add_desc(r, remote.base + run.remote.offset, run.local.bytes, remote.device);
			}
		}
		if (i < n) run = *c;
	}
	return s;
}

int sy_create(sy_agent *a, int op, const char *name, sy_region local, sy_region remote, const sy_copy *copies, size_t n, void **req) {
	void *l = NULL, *r = NULL;
	int s = a->calls->create_xfer_dlist(local.mem, &l);
	if (s != SY_SUCCESS) return s;
	s = a->calls->create_xfer_dlist(remote.mem, &r);
	if (s == SY_SUCCESS) s = add_pairs(a, l, local, r, remote, copies, n);
	if (s == SY_SUCCESS) s = a->calls->create_xfer_req(a->agent, op, l, r, name, req, a->args);
	a->calls->destroy_xfer_dlist(l);
	if (r) a->calls->destroy_xfer_dlist(r);
	return s;
}

int sy_post(sy_agent *a, void *req) { return a->calls->post_xfer_req(a->agent, req, NULL); }

int sy_status(sy_agent *a, void *req) { return a->calls->get_xfer_status(a->agent, req); }

int sy_release(sy_agent *a, void *req) {
	int s = a->calls->release_xfer_req(a->agent, req);
	if (s == SY_SUCCESS) s = a->calls->destroy_xfer_req(req);
	return s;
}

int sy_notify(sy_agent *a, const char *name, const void *data, size_t len) {
	return a->calls->gen_notif(a->agent, name, data, len, a->args);
}

// pack appends one note to a buffer of *size bytes, of which *len are used.
static bool pack(char **buffer, size_t *len, size_t *size, const char *name, const void *note, uint64_t note_len) {
	uint64_t name_len = strlen(name);
	size_t need = *len + 16 + name_len + note_len;
	if (need > *size) {
		size_t larger = need > 2 * *size ? need : 2 * *size;
		char *moved = realloc(*buffer, larger);
		if (!moved) return false;
		*buffer = moved;
		*size = larger;
	}
	char *p = *buffer + *len;
	memcpy(p, &name_len, 8);
	memcpy(p + 8, &note_len, 8);
	memcpy(p + 16, name, name_len);
	memcpy(p + 16 + name_len, note, note_len);
	*len = need;
	return true;
}

int sy_receive(sy_agent *a) {
	a->received = NULL;
	a->received_bytes = 0;
	int s = a->calls->get_notifs(a->agent, a->notifs, a->args);
	size_t senders = 0, size = 0;
	a->calls->notif_map_size(a->notifs, &senders);
	if (senders == 0) return s;
	bool fits = true;
	for (size_t i = 0; i < senders && fits; i++) {
		const char *name = NULL;
		size_t notes = 0;
		a->calls->notif_map_get_agent_at(a->notifs, i, &name);
		a->calls->notif_map_get_notifs_size(a->notifs, name, &notes);
		for (size_t j = 0; j < notes && fits; j++) {
			const void *note = NULL;
			size_t note_len = 0;
			a->calls->notif_map_get_notif(a->notifs, name, j, &note, &note_len);
			fits = pack(&a->received, &a->received_bytes, &size, name, note, note_len);
		}
	}
	a->calls->notif_map_clear(a->notifs);
	return fits ? s : -4;
}
