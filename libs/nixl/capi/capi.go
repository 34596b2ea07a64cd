// Package capi finds NVIDIA's NIXL library, libnixl_capi.so, by dlopen. It needs
// none of NIXL's headers, and a binary that holds it runs without the library.
//
// It is the loader alone, not a transport: Available tells whether one could be
// had here. It starts no goroutine.
package capi

import "errors"

// EnvLibrary is the environment variable that names the library file. Where it is
// set, nowhere else is looked.
const EnvLibrary = "SWITCHYARD_NIXL_CAPI"

// ErrUnavailable: no usable NIXL library; the message says where was looked.
var ErrUnavailable = errors.New("NIXL is unavailable")

// library is the file name that the loader searches along its path.
const library = "libnixl_capi.so"

// symbols are the calls that a transport cannot do without.
var symbols = [...]string{
	"nixl_capi_create_agent",
	"nixl_capi_destroy_agent",
	"nixl_capi_create_backend",
	"nixl_capi_destroy_backend",
	"nixl_capi_create_opt_args",
	"nixl_capi_destroy_opt_args",
	"nixl_capi_register_mem",
	"nixl_capi_deregister_mem",
	"nixl_capi_get_local_md",
	"nixl_capi_load_remote_md",
	"nixl_capi_invalidate_remote_md",
	"nixl_capi_prep_xfer_dlist",
	"nixl_capi_release_xfer_dlist_handle",
	"nixl_capi_make_xfer_req",
	"nixl_capi_post_xfer_req",
	"nixl_capi_get_xfer_status",
	"nixl_capi_release_xfer_req",
	"nixl_capi_gen_notif",
	"nixl_capi_get_notifs",
}
