package main

import "fmt"

// Both kernels are outer products: rows of broadcast factors by 32 columns, row m
// and column vector c in accumulator Y(4m+c), factors in Y12–Y14, columns in Y15.
// Strips lie anywhere in memory, which no hardware prefetcher foresees, so each
// fetches the next one.

// scores emits query rows by pairs of key strips, one chain over the dimensions.
func scores(w *writer, rows int) {
	w.begin(fmt.Sprintf("scores%d", rows), arg{"s", "DI"}, arg{"sStride", "R8"}, arg{"q", ""}, arg{"qStride", "R9"},
		arg{"memory", "AX"}, arg{"offsets", "BX"}, arg{"pairs", ""}, arg{"stride", "R10"}, arg{"dims", ""})
	w.line("pair:")
	w.op("MOVQ (BX), R11")
	w.op("MOVQ 8(BX), R12")
	// SI and DX: how far away the next pair is, for the prefetch; 0 for the last.
	w.op("XORQ SI, SI")
	w.op("XORQ DX, DX")
	w.op("DECQ pairs+48(FP)")
	w.op("JZ place")
	w.op("MOVQ 16(BX), SI")
	w.op("MOVQ 24(BX), DX")
	w.op("SUBQ R11, SI")
	w.op("SUBQ R12, DX")
	w.op("SHLQ $2, SI")
	w.op("SHLQ $2, DX")
	w.line("place:")
	w.op("LEAQ (AX)(R11*4), R11")
	w.op("LEAQ (AX)(R12*4), R12")
	w.zero(0, 4*rows)
	w.op("MOVQ q+16(FP), R13")
	w.op("MOVQ dims+64(FP), CX")
	w.line("dim:")
	w.op("PREFETCHT0 (R11)(SI*1)")
	w.op("PREFETCHT0 (R12)(DX*1)")
	product(w, rows, "R13", "R9", []string{"(R11)", "32(R11)", "(R12)", "32(R12)"})
	w.op("ADDQ $4, R13")
	w.op("ADDQ R10, R11")
	w.op("ADDQ R10, R12")
	w.op("DECQ CX")
	w.op("JNZ dim")
	moveTile(w, rows, "DI", "R8", true)
	w.op("ADDQ $128, DI")
	w.op("ADDQ $16, BX")
	w.op("CMPQ pairs+48(FP), $0")
	w.op("JNE pair")
	w.end()
}

// mix emits probability rows by value strips, one chain over the positions.
func mix(w *writer, rows int) {
	w.begin(fmt.Sprintf("mix%d", rows), arg{"out", "DI"}, arg{"outStride", "R8"}, arg{"p", "SI"}, arg{"pStride", "R9"},
		arg{"memory", "AX"}, arg{"offsets", "BX"}, arg{"positions", "DX"}, arg{"stride", "R10"})
	moveTile(w, rows, "DI", "R8", false)
	w.line("strip:")
	w.op("MOVQ (BX), R11")
	w.op("LEAQ (AX)(R11*4), R11")
	w.op("MOVQ $16, CX")
	w.op("CMPQ DX, CX")
	w.op("CMOVQLT DX, CX")
	w.op("XORQ R12, R12") // how far away the next strip is
	w.op("SUBQ CX, DX")
	w.op("JZ position")
	w.op("MOVQ 8(BX), R12")
	w.op("SUBQ (BX), R12")
	w.op("SHLQ $2, R12")
	w.line("position:")
	w.op("PREFETCHT0 (R11)(R12*1)")
	w.op("PREFETCHT0 64(R11)(R12*1)")
	product(w, rows, "SI", "R9", []string{"(R11)", "32(R11)", "64(R11)", "96(R11)"})
	w.op("ADDQ $4, SI")
	w.op("ADDQ R10, R11")
	w.op("DECQ CX")
	w.op("JNZ position")
	w.op("ADDQ $8, BX")
	w.op("TESTQ DX, DX")
	w.op("JNZ strip")
	moveTile(w, rows, "DI", "R8", true)
	w.end()
}

func product(w *writer, rows int, factor, stride string, columns []string) {
	for m := range rows {
		w.op("VBROADCASTSS %s, Y%d", rowOf(0, factor, stride, m), 12+m)
	}
	for c, column := range columns {
		w.op("VMOVUPS %s, Y15", column)
		for m := range rows {
			w.op("VFMADD231PS Y15, Y%d, Y%d", 12+m, 4*m+c)
		}
	}
}

// moveTile loads the accumulators from memory or stores them.
func moveTile(w *writer, rows int, base, stride string, store bool) {
	for m := range rows {
		for c := range 4 {
			at, register := rowOf(32*c, base, stride, m), fmt.Sprintf("Y%d", 4*m+c)
			if store {
				w.op("VMOVUPS %s, %s", register, at)
			} else {
				w.op("VMOVUPS %s, %s", at, register)
			}
		}
	}
}

// rowOf is the operand at an offset in row m (0, 1 or 2).
func rowOf(offset int, base, stride string, m int) string {
	if m == 0 {
		return fmt.Sprintf("%d(%s)", offset, base)
	}
	return fmt.Sprintf("%d(%s)(%s*%d)", offset, base, stride, m)
}
