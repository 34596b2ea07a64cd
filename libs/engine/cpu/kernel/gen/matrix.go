package main

import "fmt"

// dots emits the products of one token with packed groups, and the unpackers.
// In a dot, Y0–Y7 are the accumulators: row r, half h (lanes 8h…) is Y(2r+h).
func dots(w *writer) {
	for _, kind := range []string{"Q4", "Q8", "F32"} {
		w.begin("dot"+kind, arg{"y", "DI"}, arg{"x", "AX"}, arg{"data", "SI"}, arg{"blocks", "BX"}, arg{"groups", "DX"})
		w.line("group:")
		w.zero(0, 8)
		w.op("MOVQ AX, R8")
		w.op("MOVQ BX, CX")
		w.line("block:")
		switch kind {
		case "Q4":
			weightsQ4(w, func(r, i int) { w.op("VFMADD231PS %d(R8), Y15, Y%d", 32*i, 2*r+i%2) })
			w.op("ADDQ $96, SI")
		case "Q8":
			for i := range 4 {
				w.op("VMOVUPS %d(R8), Y%d", 32*i, 8+i)
			}
			weightsQ8(w, func(r, i int) { w.op("VFMADD231PS Y%d, Y15, Y%d", 8+i, 2*r+i%2) })
			w.op("ADDQ $144, SI")
		case "F32":
			for i := range 4 {
				w.op("VMOVUPS %d(R8), Y15", 32*i)
				for r := range 4 {
					w.op("VFMADD231PS %d(SI), Y15, Y%d", unpackedOffset(r, i), 2*r+i%2)
				}
			}
			w.op("ADDQ $512, SI")
		}
		w.op("ADDQ $128, R8")
		w.op("DECQ CX")
		w.op("JNZ block")
		for r := range 4 {
			w.op("VADDPS Y%d, Y%d, Y%d", 2*r+1, 2*r, r)
		}
		reducePair(w, 0, 1, 4)
		reducePair(w, 2, 3, 6)
		reduceFour(w, 4, 6, 8)
		w.op("VMOVUPS X8, (DI)")
		w.op("ADDQ $16, DI")
		w.op("DECQ DX")
		w.op("JNZ group")
		w.end()
	}

	w.begin("unpackQ4AVX", arg{"buffer", "DI"}, arg{"data", "SI"}, arg{"blocks", "CX"})
	w.line("block:")
	weightsQ4(w, func(r, i int) { w.op("VMOVUPS Y15, %d(DI)", unpackedOffset(r, i)) })
	w.op("ADDQ $96, SI")
	w.op("ADDQ $512, DI")
	w.op("DECQ CX")
	w.op("JNZ block")
	w.end()

	w.begin("unpackQ8AVX", arg{"buffer", "DI"}, arg{"data", "SI"}, arg{"blocks", "CX"})
	w.line("block:")
	weightsQ8(w, func(r, i int) { w.op("VMOVUPS Y15, %d(DI)", unpackedOffset(r, i)) })
	w.op("ADDQ $144, SI")
	w.op("ADDQ $512, DI")
	w.op("DECQ CX")
	w.op("JNZ block")
	w.end()
}

// unpackedOffset is where columns 8i to 8i+7 of row r of an unpacked block lie, in bytes.
func unpackedOffset(r, i int) int { return i/2*256 + r*64 + i%2*32 }

// prefetch asks for the lines of weights that come a page later: the hardware's
// own prefetcher starts anew at every page, which costs a fifth of the decode rate.
func prefetch(w *writer, lines int) {
	for i := range lines {
		w.op("PREFETCHT0 %d(SI)", 4096+64*i)
	}
}

// weightsQ4 makes the weights of a block in Y15, eight columns 8i… of a row at a
// time, and hands each to use. It needs Y8–Y15.
func weightsQ4(w *writer, use func(r, i int)) {
	prefetch(w, 2)
	w.op("VMOVDQU (SI), Y8")
	w.op("VMOVDQU 32(SI), Y10")
	w.op("VPSRLD $16, Y8, Y9")
	w.op("VPSRLD $16, Y10, Y11")
	for r := range 4 {
		w.op("VBROADCASTSS %d(SI), Y12", 64+4*r)
		w.op("VBROADCASTSS %d(SI), Y13", 80+4*r)
		w.op("VPBROADCASTD nibble%d<>(SB), Y14", r)
		for i := range 4 {
			w.op("VPAND Y14, Y%d, Y15", 8+i)
			w.op("VCVTDQ2PS Y15, Y15")
			w.op("VFMADD213PS Y13, Y12, Y15")
			use(r, i)
		}
	}
}

// weightsQ8 is weightsQ4 for Q8; it needs Y12 and Y15.
func weightsQ8(w *writer, use func(r, i int)) {
	prefetch(w, 3)
	for r := range 4 {
		w.op("VBROADCASTSS %d(SI), Y12", 128+4*r)
		for i := range 4 {
			w.op("VPMOVSXBD %d(SI), Y15", i/2*64+16*r+i%2*8)
			w.op("VCVTDQ2PS Y15, Y15")
			w.op("VMULPS Y12, Y15, Y15")
			use(r, i)
		}
	}
}

// reducePair turns y[0…7] of two outputs a and b into z = y0+y2, y1+y3 of a, then
// of b, in the low half of the register to; y4+y6, y5+y7 in the high half. It
// spoils to+1.
func reducePair(w *writer, a, b, to int) {
	w.op("VUNPCKHPD Y%d, Y%d, Y%d", b, a, to+1)
	w.op("VUNPCKLPD Y%d, Y%d, Y%d", b, a, to)
	w.op("VADDPS Y%d, Y%d, Y%d", to+1, to, to)
}

// reduceFour ends the tree for two such pairs: four outputs in X(to). It spoils to+1.
func reduceFour(w *writer, pair0, pair1, to int) {
	w.op("VSHUFPS $0x88, Y%d, Y%d, Y%d", pair1, pair0, to)
	w.op("VSHUFPS $0xdd, Y%d, Y%d, Y%d", pair1, pair0, to+1)
	w.op("VADDPS Y%d, Y%d, Y%d", to+1, to, to)
	w.op("VEXTRACTF128 $1, Y%d, X%d", to, to+1)
	w.op("VADDPS X%d, X%d, X%d", to+1, to, to)
}

// gemms emits the tiles of 3 and of 2 tokens by the two rows of a pair. Half h,
// token t, row r of the pair is accumulator Y(6h+2t+r). A long row is cut into
// runs of columns that fit the first-level cache: mode bit 0 takes the
// accumulators from partial, bit 1 leaves them there, which changes no bit.
func gemms(w *writer) {
	for _, tokens := range []int{3, 2} {
		w.begin(fmt.Sprintf("gemm%d", tokens), arg{"y", "DI"}, arg{"yStride", "R8"}, arg{"x", "SI"}, arg{"xStride", "R9"},
			arg{"buffer", "R10"}, arg{"blocks", "BX"}, arg{"tiles", "DX"}, arg{"partial", "R13"}, arg{"mode", "AX"})
		w.line("tile:")
		for pair := range 2 {
			gemmTile(w, tokens, pair)
		}
		w.op("LEAQ (SI)(R9*2), SI")
		w.op("LEAQ (DI)(R8*2), DI")
		if tokens == 3 {
			w.op("ADDQ R9, SI")
			w.op("ADDQ R8, DI")
		}
		w.op("DECQ DX")
		w.op("JNZ tile")
		w.end()
	}
}

// acc is the accumulator of half h, token t and row r.
func acc(h, t, r int) int { return 6*h + 2*t + r }

func gemmTile(w *writer, tokens, pair int) {
	w.op("TESTQ $1, AX")
	w.op("JNZ load%d", pair)
	w.zero(0, 12)
	w.op("JMP start%d", pair)
	w.line("load%d:", pair)
	partials(w, tokens, "VMOVUPS %[1]d(R13), Y%[2]d")
	w.line("start%d:", pair)
	gemmLoop(w, tokens, pair)
	w.op("TESTQ $2, AX")
	w.op("JZ reduce%d", pair)
	partials(w, tokens, "VMOVUPS Y%[2]d, %[1]d(R13)")
	w.op("JMP done%d", pair)
	w.line("reduce%d:", pair)
	for i := range 2 * tokens {
		w.op("VADDPS Y%d, Y%d, Y%d", 6+i, i, i)
	}
	for t := range tokens {
		reducePair(w, acc(0, t, 0), acc(0, t, 1), 6+2*t)
	}
	reduceFour(w, 6, 8, 12)
	w.op("VMOVLPS X12, %d(DI)", 8*pair)
	w.op("VMOVHPS X12, %d(DI)(R8*1)", 8*pair)
	if tokens == 3 {
		reduceFour(w, 10, 10, 14)
		w.op("VMOVLPS X14, %d(DI)(R8*2)", 8*pair)
	}
	w.line("done%d:", pair)
	w.op("ADDQ $%d, R13", 2*tokens*64)
}

func partials(w *writer, tokens int, format string) {
	for h := range 2 {
		for i := range 2 * tokens {
			w.op(format, 64*i+32*h, 6*h+i)
		}
	}
}

func gemmLoop(w *writer, tokens, pair int) {
	xs := []string{"(R12)", "(R12)(R9*1)", "(R12)(R9*2)"}
	w.op("LEAQ %d(R10), R11", 128*pair)
	w.op("MOVQ SI, R12")
	w.op("MOVQ BX, CX")
	w.line("block%d:", pair)
	for i := range 4 {
		w.op("VMOVUPS %d(R11), Y12", unpackedOffset(0, i))
		w.op("VMOVUPS %d(R11), Y13", unpackedOffset(1, i))
		for t := range tokens {
			w.op("VMOVUPS %d%s, Y%d", 32*i, xs[t], 14+t%2)
			for r := range 2 {
				w.op("VFMADD231PS Y%d, Y%d, Y%d", 14+t%2, 12+r, acc(i%2, t, r))
			}
		}
	}
	w.op("ADDQ $512, R11")
	w.op("ADDQ $128, R12")
	w.op("DECQ CX")
	w.op("JNZ block%d", pair)
}
