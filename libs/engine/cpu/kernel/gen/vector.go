package main

import "math"

// The constants of package kernel's exp; its test compares the results bit for bit.
var exponential = []struct {
	name  string
	value float32
}{
	{"expHigh", 88}, {"expLow", -86}, {"log2e", 1.44269504088896341}, {"magic", 12582912},
	{"minusLn2High", -0.693359375}, {"minusLn2Low", 2.12194440e-4},
	{"exp0", 1.9875691500e-4}, {"exp1", 1.3981999507e-3}, {"exp2", 8.3334519073e-3},
	{"exp3", 4.1665795894e-2}, {"exp4", 1.6666665459e-1}, {"exp5", 5.0000001201e-1}, {"one", 1},
}

func constants(w *writer) {
	w.line("")
	for r := range 4 {
		w.line("DATA nibble%d<>+0(SB)/4, $0x%08x", r, 15<<(4*r))
		w.line("GLOBL nibble%d<>(SB), RODATA|NOPTR, $4", r)
	}
	for _, c := range exponential {
		w.repeated(c.name, math.Float32bits(c.value))
	}
	w.repeated("sign", 1<<31)
}

// exp emits Y(x) = exp(Y(x)); it spoils the five registers from t on.
func exp(w *writer, x, t int) {
	n, p, square, mask := t+1, t+2, t+3, t+4
	w.op("VCMPPS $1, expLow<>(SB), Y%d, Y%d", x, mask)
	w.op("VMINPS expHigh<>(SB), Y%d, Y%d", x, x)
	w.op("VMOVUPS magic<>(SB), Y%d", t)
	w.op("VFMADD231PS log2e<>(SB), Y%d, Y%d", x, t)
	w.op("VSUBPS magic<>(SB), Y%d, Y%d", t, n)
	w.op("VFMADD231PS minusLn2High<>(SB), Y%d, Y%d", n, x)
	w.op("VFMADD231PS minusLn2Low<>(SB), Y%d, Y%d", n, x)
	w.op("VMOVUPS exp0<>(SB), Y%d", p)
	for _, c := range []string{"exp1", "exp2", "exp3", "exp4", "exp5"} {
		w.op("VFMADD213PS %s<>(SB), Y%d, Y%d", c, x, p)
	}
	w.op("VMULPS Y%d, Y%d, Y%d", x, x, square)
	w.op("VFMADD213PS Y%d, Y%d, Y%d", x, square, p)
	w.op("VADDPS one<>(SB), Y%d, Y%d", p, p)
	w.op("VPSLLD $23, Y%d, Y%d", t, t)
	w.op("VPADDD Y%d, Y%d, Y%d", t, p, p)
	w.op("VANDNPS Y%d, Y%d, Y%d", p, mask, x)
}

// vectors emits the operations on rows.
func vectors(w *writer) {
	softmax(w)

	w.beginFrame("sumSquares", 20)
	w.load(arg{"x", "SI"}, arg{"runs", "CX"})
	w.zero(0, 2)
	w.line("run:")
	w.op("VMOVUPS (SI), Y2")
	w.op("VMOVUPS 32(SI), Y3")
	w.op("VFMADD231PS Y2, Y2, Y0")
	w.op("VFMADD231PS Y3, Y3, Y1")
	w.op("ADDQ $64, SI")
	w.op("DECQ CX")
	w.op("JNZ run")
	lanes(w)
	w.end()

	w.beginFrame("scale", 36)
	w.load(arg{"y", "DI"}, arg{"x", "SI"}, arg{"w", "DX"}, arg{"vectors", "CX"})
	w.op("VBROADCASTSS factor+32(FP), Y1")
	loop(w, func() {
		w.op("VMULPS (SI), Y1, Y0")
		w.op("VMULPS (DX), Y0, Y0")
		w.op("VMOVUPS Y0, (DI)")
	}, "SI", "DX", "DI")

	w.beginFrame("multiply", 20)
	w.load(arg{"x", "DI"}, arg{"vectors", "CX"})
	w.op("VBROADCASTSS factor+16(FP), Y1")
	loop(w, func() {
		w.op("VMULPS (DI), Y1, Y0")
		w.op("VMOVUPS Y0, (DI)")
	}, "DI")

	w.begin("add", arg{"x", "DI"}, arg{"y", "SI"}, arg{"vectors", "CX"})
	loop(w, func() {
		w.op("VMOVUPS (DI), Y0")
		w.op("VADDPS (SI), Y0, Y0")
		w.op("VMOVUPS Y0, (DI)")
	}, "DI", "SI")

	w.begin("gate", arg{"a", "DI"}, arg{"u", "SI"}, arg{"vectors", "CX"})
	loop(w, func() {
		w.op("VMOVUPS (DI), Y0")
		w.op("VXORPS sign<>(SB), Y0, Y1")
		exp(w, 1, 2)
		w.op("VADDPS one<>(SB), Y1, Y1")
		w.op("VDIVPS Y1, Y0, Y0")
		w.op("VMULPS (SI), Y0, Y0")
		w.op("VMOVUPS Y0, (DI)")
	}, "DI", "SI")

	rotate(w)
}

// loop emits a loop over CX vectors that advances the pointers, and the function's end.
func loop(w *writer, body func(), pointers ...string) {
	w.line("vector:")
	body()
	for _, p := range pointers {
		w.op("ADDQ $32, %s", p)
	}
	w.op("DECQ CX")
	w.op("JNZ vector")
	w.end()
}

// lanes emits the tree over the sixteen lanes in Y0 and Y1 and returns the sum.
func lanes(w *writer) {
	w.op("VADDPS Y1, Y0, Y0")
	w.op("VPERMILPD $5, Y0, Y1")
	w.op("VADDPS Y1, Y0, Y0")
	w.op("VMOVSHDUP Y0, Y1")
	w.op("VADDPS Y1, Y0, Y0")
	w.op("VEXTRACTF128 $1, Y0, X1")
	w.op("VADDSS X1, X0, X0")
	w.op("VMOVSS X0, ret+16(FP)")
}

func softmax(w *writer) {
	w.beginFrame("softmax", 20)
	w.load(arg{"s", "SI"}, arg{"runs", "CX"})
	w.op("MOVQ SI, DI")
	w.op("MOVQ CX, DX")
	w.op("VMOVUPS (SI), Y2")
	w.op("VMOVUPS 32(SI), Y3")
	w.line("top:")
	w.op("VMAXPS (SI), Y2, Y2")
	w.op("VMAXPS 32(SI), Y3, Y3")
	w.op("ADDQ $64, SI")
	w.op("DECQ CX")
	w.op("JNZ top")
	w.op("VMAXPS Y3, Y2, Y2")
	w.op("VEXTRACTF128 $1, Y2, X3")
	w.op("VMAXPS X3, X2, X2")
	w.op("VPERMILPS $0x4e, X2, X3")
	w.op("VMAXPS X3, X2, X2")
	w.op("VPERMILPS $0xb1, X2, X3")
	w.op("VMAXPS X3, X2, X2")
	w.op("VBROADCASTSS X2, Y2")
	w.zero(0, 2)
	w.line("run:")
	for h := range 2 {
		w.op("VMOVUPS %d(DI), Y%d", 32*h, 3+h)
		w.op("VSUBPS Y2, Y%d, Y%d", 3+h, 3+h)
	}
	for h := range 2 {
		exp(w, 3+h, 5+5*h)
		w.op("VMOVUPS Y%d, %d(DI)", 3+h, 32*h)
		w.op("VADDPS Y%d, Y%d, Y%d", 3+h, h, h)
	}
	w.op("ADDQ $64, DI")
	w.op("DECQ DX")
	w.op("JNZ run")
	lanes(w)
	w.end()
}

// rotate: even = even·cos − odd·sin, odd = odd·cos + even·sin, by VADDSUBPS.
func rotate(w *writer) {
	w.begin("rotate", arg{"x", "DI"}, arg{"table", "SI"}, arg{"vectors", "BX"}, arg{"heads", "DX"})
	w.op("MOVQ BX, R9")
	w.op("SHLQ $5, R9")
	w.line("head:")
	w.op("MOVQ SI, R8")
	w.op("MOVQ BX, CX")
	w.line("vector:")
	w.op("VMOVUPS (DI), Y0")
	w.op("VPERMILPS $0xb1, Y0, Y1")
	w.op("VMULPS (R8), Y0, Y0")
	w.op("VMULPS (R8)(R9*1), Y1, Y1")
	w.op("VADDSUBPS Y1, Y0, Y0")
	w.op("VMOVUPS Y0, (DI)")
	w.op("ADDQ $32, R8")
	w.op("ADDQ $32, DI")
	w.op("DECQ CX")
	w.op("JNZ vector")
	w.op("DECQ DX")
	w.op("JNZ head")
	w.end()
}
