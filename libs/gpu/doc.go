// Package gpu tells which NVIDIA GPUs a machine has, how they are, how they are
// connected, and what befalls them. It reads; it changes no setting and allocates no
// memory on a GPU.
//
// It asks the driver's own library, libnvidia-ml.so.1, which is looked for when Open is
// called and not before: a binary runs without it. A call into a library that is not
// there ends the process, and so does one of a function that an older library does not
// have. So nothing but a Machine that Open returned calls it, never after Close, and every
// function that not all drivers have is looked up first. Builds without cgo, and for other
// systems than Linux, answer ErrUnavailable.
//
// The library's functions are unknown to the linker, which must leave them to be found at
// their first call: with -z lazy, since a binary that binds everything at its start (-z now,
// some toolchains' default) would not start without the library, and not with gold,
// which makes calls of address 0 of them. The tests, built by the same toolchain, notice either.
//
// A Machine starts no goroutine. Run reports Xid events until its context or the Machine
// ends, in the goroutine that calls it.
package gpu
