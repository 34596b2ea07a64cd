// The calls of NIXL's C API that the transport makes, as version 1.5.1 declares them
// (header wrapper.h of the crate nixl-sys, Apache-2.0), with opaque handles as void *.
// They are reached through a table of addresses, so that nothing is linked.
#ifndef SWITCHYARD_NIXL_H
#define SWITCHYARD_NIXL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// nixl_capi_agent_config_t. The reserve is for fields that later versions append: they read zeroes.
typedef struct {
	bool enable_prog_thread;
	bool enable_listen_thread;
	int listen_port;
	int thread_sync; // SY_SYNC_RW
	unsigned int num_workers;
	uint64_t pthr_delay_us;
	uint64_t lthr_delay_us;
	bool capture_telemetry;
	uint64_t reserve[8];
} sy_config;

enum { SY_SYNC_RW = 2 };                 // nixl_capi_thread_sync_t
enum { SY_READ = 0, SY_WRITE = 1 };      // nixl_capi_xfer_op_t
enum { SY_DRAM = 0, SY_VRAM = 1 };       // nixl_capi_mem_type_t
enum { SY_SUCCESS = 0, SY_IN_PROG = 1 }; // nixl_capi_status_t; errors are negative

// One line for each call: its name without the prefix nixl_capi_, and its parameters.
// All return nixl_capi_status_t, an int.
#define SY_CALLS(X) \
	X(create_configured_agent, (const char *name, const sy_config *config, void **agent)) \
	X(destroy_agent, (void *agent)) \
	X(create_params, (void **params)) \
	X(params_add, (void *params, const char *key, const char *value)) \
	X(destroy_params, (void *params)) \
	X(create_backend, (void *agent, const char *plugin, void *params, void **backend)) \
	X(destroy_backend, (void *backend)) \
	X(create_opt_args, (void **args)) \
	X(opt_args_add_backend, (void *args, void *backend)) \
	X(destroy_opt_args, (void *args)) \
	X(create_reg_dlist, (int mem, void **list)) \
	X(reg_dlist_add_desc, (void *list, uintptr_t addr, size_t len, uint64_t device, const void *meta, size_t meta_len)) \
	X(destroy_reg_dlist, (void *list)) \
	X(register_mem, (void *agent, void *list, void *args)) \
	X(deregister_mem, (void *agent, void *list, void *args)) \
	X(get_local_md, (void *agent, void **data, size_t *len)) \
	X(load_remote_md, (void *agent, const void *data, size_t len, char **name)) \
	X(invalidate_remote_md, (void *agent, const char *name)) \
	X(create_xfer_dlist, (int mem, void **list)) \
	X(xfer_dlist_add_desc, (void *list, uintptr_t addr, size_t len, uint64_t device)) \
	X(destroy_xfer_dlist, (void *list)) \
	X(prep_xfer_dlist, (void *agent, const char *name, void *list, void **handle, void *args)) \
	X(release_xfer_dlist_handle, (void *agent, void *handle)) \
	X(make_xfer_req, (void *agent, int op, void *local, const int *li, size_t ln, void *remote, const int *ri, size_t rn, void **req, void *args)) \
	X(create_xfer_req, (void *agent, int op, void *local, void *remote, const char *name, void **req, void *args)) \
	X(post_xfer_req, (void *agent, void *req, void *args)) \
	X(get_xfer_status, (void *agent, void *req)) \
	X(release_xfer_req, (void *agent, void *req)) \
	X(destroy_xfer_req, (void *req)) \
	X(gen_notif, (void *agent, const char *name, const void *data, size_t len, void *args)) \
	X(create_notif_map, (void **map)) \
	X(destroy_notif_map, (void *map)) \
	X(get_notifs, (void *agent, void *map, void *args)) \
	X(notif_map_size, (void *map, size_t *size)) \
	X(notif_map_get_agent_at, (void *map, size_t index, const char **name)) \
	X(notif_map_get_notifs_size, (void *map, const char *name, size_t *size)) \
	X(notif_map_get_notif, (void *map, const char *name, size_t index, const void **data, size_t *len)) \
	X(notif_map_clear, (void *map))

#define SY_FIELD(name, params) int(*name) params;
typedef struct {
	SY_CALLS(SY_FIELD)
} sy_table;

// A run of bytes from the start of a region, as Go's block.Span; and nixl.Copy.
typedef struct {
	intptr_t offset, bytes;
} sy_span;

typedef struct {
	sy_span local, remote;
} sy_copy;

// A region: where it begins and on which device.
typedef struct {
	uintptr_t base;
	uint64_t device;
	int mem;
} sy_region;

// An agent with its one backend.
typedef struct {
	const sy_table *calls;
	void *agent, *backend, *args, *notifs;
	char *received; // by sy_receive
	size_t received_bytes;
} sy_agent;

void sy_settings(void);
void *sy_open(const char *path, char **error);
const char *sy_path(void *handle);
// sy_resolve fills the table, or returns the name of the first call that the library lacks.
const char *sy_resolve(void *handle, sy_table *table);
// sy_symbol is the name of the i-th call, or NULL behind the last.
const char *sy_symbol(size_t i);

int sy_create_agent(const sy_table *calls, const char *name, uint64_t interval_us, sy_agent *out);
int sy_destroy_agent(sy_agent *a);
int sy_register(sy_agent *a, sy_region r, size_t bytes, bool on);
int sy_local_md(sy_agent *a, void **data, size_t *len);
int sy_load_md(sy_agent *a, const void *data, size_t len, char **name);
int sy_invalidate_md(sy_agent *a, const char *name);
int sy_prepare(sy_agent *a, const char *name, sy_region r, const sy_span *runs, size_t n, void **handle);
int sy_release_list(sy_agent *a, void *handle);
int sy_make(sy_agent *a, int op, void *local, const int *li, void *remote, const int *ri, size_t n, void **req);
int sy_create(sy_agent *a, int op, const char *name, sy_region local, sy_region remote, const sy_copy *copies, size_t n, void **req);
int sy_post(sy_agent *a, void *req);
int sy_status(sy_agent *a, void *req);
int sy_release(sy_agent *a, void *req);
int sy_notify(sy_agent *a, const char *name, const void *data, size_t len);
// sy_receive packs what has come into received: for each note the length of the sender's name, the
// length of the note (8 bytes each), the name, the note. It is NULL when nothing came; else it is to be freed.
int sy_receive(sy_agent *a);

#endif
