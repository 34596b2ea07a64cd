package chars

// groups are the categories that consist of others.
var groups = map[string][]string{
	"LC": {"Lu", "Ll", "Lt"},
	"L":  {"Lu", "Ll", "Lt", "Lm", "Lo"},
	"M":  {"Mn", "Mc", "Me"},
	"N":  {"Nd", "Nl", "No"},
	"P":  {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"},
	"S":  {"Sm", "Sc", "Sk", "So"},
	"Z":  {"Zs", "Zl", "Zp"},
	"C":  {"Cc", "Cf", "Cs", "Co", "Cn"},
}

// longNames are the other names of categories and properties.
var longNames = map[string]string{
	"Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
	"Modifier_Letter": "Lm", "Other_Letter": "Lo",
	"Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
	"Number": "N", "Decimal_Number": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
	"Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
	"Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
	"Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Other": "C", "Control": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co", "Unassigned": "Cn",
	"space": "White_Space", "wspace": "White_Space", "alpha": "Alphabetic", "digit": "Nd", "punct": "P", "cntrl": "Cc",
	"Hani": "Han", "Hira": "Hiragana", "Kana": "Katakana", "Hang": "Hangul", "Latn": "Latin", "Grek": "Greek",
	"Cyrl": "Cyrillic", "Arab": "Arabic", "Hebr": "Hebrew", "Deva": "Devanagari",
}

// names has the property of each folded name.
var names = func() map[string]string {
	m := make(map[string]string)
	for name := range regexTables {
		m[fold(name)] = name
	}
	for name := range groups {
		m[fold(name)] = name
	}
	for long, name := range longNames {
		m[fold(long)] = name
	}
	return m
}()
