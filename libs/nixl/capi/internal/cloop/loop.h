// What a transport over NIXL's C API cannot be faster than: the same calls in a bare loop.
#ifndef SWITCHYARD_CLOOP_H
#define SWITCHYARD_CLOOP_H

#include <stddef.h>
#include <stdint.h>

// Two agents of this process, and a list of runs on each side.
typedef struct {
	void *agents[2], *backends[2], *lists[2];
} loop_pair;

// loop_open returns 0, or the number of the step that did not work.
int loop_open(const char *library, uintptr_t local, uintptr_t remote, size_t size, size_t n, size_t run, size_t stride, loop_pair *out);
void loop_close(loop_pair *p);
// loop_once makes a request of all runs in the order of the indices, posts it, and polls until its end, and
// gives the time until the post had returned, and until the end. Negative: a status of NIXL's.
int loop_once(loop_pair *p, const int *indices, size_t n, int64_t *posted_ns, int64_t *ended_ns);

#endif
