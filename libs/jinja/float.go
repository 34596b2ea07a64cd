package jinja

import (
	"math"
	"strconv"
	"strings"
)

// floatText is Python's repr of a float.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pythonFloat writes a float that is not negative, as printf does.
func pythonFloat(f float64, verb byte, precision int, alternate bool) string {
	upper := 'A' <= verb && verb <= 'Z'
	var s string
	switch {
	case math.IsNaN(f):
		s = "nan"
	case math.IsInf(f, 0):
		s = "inf"
	case verb|0x20 == 'g':
		s = generalFloat(f, precision, 0, alternate)
	default:
		s = strconv.FormatFloat(f, verb|0x20, precision, 64)
		if alternate && precision == 0 {
			mantissa, exponent, found := strings.Cut(s, "e")
			s = mantissa + "."
			if found {
				s += "e" + exponent
			}
		}
	}
	if upper {
		return strings.ToUpper(s)
	}
	return s
}

// generalFloat is %g: the shorter of both notations, without zeros at the end unless asked.
// reserved is how many digits must stay free for a plain notation.
func generalFloat(f float64, precision, reserved int, alternate bool) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return floatText(f)
	}
	precision = max(precision, 1)
	exponential := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(exponential, "e")
	e, _ := strconv.Atoi(exponent)
	trim := func(s string) string {
		if alternate || !strings.Contains(s, ".") {
			return s
		}
		return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	if e < -4 || e >= precision-reserved {
		return trim(mantissa) + "e" + exponent
	}
	s := strconv.FormatFloat(f, 'f', precision-1-e, 64)
	if alternate && !strings.Contains(s, ".") {
		s += "."
	}
	return trim(s)
}
