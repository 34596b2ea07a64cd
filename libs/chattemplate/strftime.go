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
	layouts := map[string]string{
		"Y": "2006", "y": "06", "m": "01", "-m": "1", "d": "02", "-d": "2", "e": "_2", "H": "15", "I": "03", "-I": "3", "M": "04", "-M": "4",
		"S": "05", "-S": "5", "B": "January", "b": "Jan", "h": "Jan", "A": "Monday", "a": "Mon", "p": "PM", "Z": "MST", "z": "-0700",
		"F": "2006-01-02", "T": "15:04:05", "R": "15:04", "D": "01/02/06", "c": "Mon Jan _2 15:04:05 2006", "x": "01/02/06", "X": "15:04:05",
	}
	if layout, ok := layouts[directive]; ok {
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
