package chattemplate

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time as Python does in the C locale. A directive that it does
// not know stays as it is.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		directive := format[i : i+1]
		if format[i] == '-' && i+1 < len(format) { // without padding
			i++
			directive = format[i-1 : i+1]
		}
		b.WriteString(directiveText(directive, t))
	}
	return b.String()
}

func directiveText(directive string, t time.Time) string {
	if layout := layoutOf(directive); layout != "" {
		return t.Format(layout)
	}
	switch directive {
	case "%":
		return "%"
	case "n":
		return "\n"
	case "t":
		return "\t"
	case "j":
		return fmt.Sprintf("%03d", t.YearDay())
	case "-H":
		return fmt.Sprint(t.Hour())
	case "f":
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case "w":
		return fmt.Sprint(int(t.Weekday()))
	}
	return "%" + directive
}

// layoutOf is a directive as Go writes it, "" if there is no such.
func layoutOf(directive string) string {
	switch directive {
	case "Y":
		return "2006"
	case "y":
		return "06"
	case "m":
		return "01"
	case "-m":
		return "1"
	case "d":
		return "02"
	case "-d":
		return "2"
	case "e":
		return "_2"
	case "H":
		return "15"
	case "I":
		return "03"
	case "-I":
		return "3"
	case "M":
		return "04"
	case "-M":
		return "4"
	case "S":
		return "05"
	case "-S":
		return "5"
	case "B":
		return "January"
	case "b":
		return "Jan"
	case "h":
		return "Jan"
	case "A":
		return "Monday"
	case "a":
		return "Mon"
	case "p":
		return "PM"
	case "Z":
		return "MST"
	case "z":
		return "-0700"
	case "F":
		return "2006-01-02"
	case "T":
		return "15:04:05"
	case "R":
		return "15:04"
	case "D":
		return "01/02/06"
	case "c":
		return "Mon Jan _2 15:04:05 2006"
	case "x":
		return "01/02/06"
	case "X":
		return "15:04:05"
	}
	return ""
}
