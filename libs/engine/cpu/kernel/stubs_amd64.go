package kernel

// Strides are in bytes, blocks are 32 columns; see gen for the code.

//go:noescape
func dotQ4(y, x *float32, data *byte, blocks, groups int)

//go:noescape
func dotQ8(y, x *float32, data *byte, blocks, groups int)

//go:noescape
func dotF32(y, x *float32, data *byte, blocks, groups int)

//go:noescape
func unpackQ4AVX(buffer *float32, data *byte, blocks int)

//go:noescape
func unpackQ8AVX(buffer *float32, data *byte, blocks int)

//go:noescape
func gemm3(y *float32, yStride int, x *float32, xStride int, buffer *float32, blocks, tiles int, partial *float32, mode int)

//go:noescape
func gemm2(y *float32, yStride int, x *float32, xStride int, buffer *float32, blocks, tiles int, partial *float32, mode int)

//go:noescape
func scores1(s *float32, sStride int, q *float32, qStride int, memory *float32, offsets *int, pairs, stride, dims int)

//go:noescape
func scores2(s *float32, sStride int, q *float32, qStride int, memory *float32, offsets *int, pairs, stride, dims int)

//go:noescape
func scores3(s *float32, sStride int, q *float32, qStride int, memory *float32, offsets *int, pairs, stride, dims int)

//go:noescape
func mix1(out *float32, outStride int, p *float32, pStride int, memory *float32, offsets *int, positions, stride int)

//go:noescape
func mix2(out *float32, outStride int, p *float32, pStride int, memory *float32, offsets *int, positions, stride int)

//go:noescape
func mix3(out *float32, outStride int, p *float32, pStride int, memory *float32, offsets *int, positions, stride int)

//go:noescape
func softmax(s *float32, runs int) float32

//go:noescape
func sumSquares(x *float32, runs int) float32

//go:noescape
func scale(y, x, w *float32, vectors int, factor float32)

//go:noescape
func multiply(x *float32, vectors int, factor float32)

//go:noescape
func gate(a, u *float32, vectors int)

//go:noescape
func rotate(x, table *float32, vectors, heads int)

//go:noescape
func add(x, y *float32, vectors int)
