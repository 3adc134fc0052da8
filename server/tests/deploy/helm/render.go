// Render the templates of a chart as Helm does, with the functions of Helm that they use.
//
//	go run render.go CHART < {"Release": {…}, "Chart": {…}, "Values": {…}}
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func toJson(value interface{}) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func quote(value interface{}) string {
	return fmt.Sprintf("%q", fmt.Sprint(value))
}

func main() {
	values := map[string]interface{}{}
	reader := json.NewDecoder(os.Stdin)
	reader.UseNumber()
	must(reader.Decode(&values))

	chart := template.New("chart").Option("missingkey=error")
	chart.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(width int, text string) string {
			indent := "\n" + strings.Repeat(" ", width)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"trunc": func(length int, text string) string {
			if len(text) > length {
				return text[:length]
			}
			return text
		},
		"default": func(fallback interface{}, value interface{}) interface{} {
			if value == nil || reflect.ValueOf(value).IsZero() {
				return fallback
			}
			return value
		},
		"contains":  func(part string, text string) bool { return strings.Contains(text, part) },
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"toJson":    toJson,
		"quote":     quote,
	})
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	must(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(err)
		_, err = chart.New(filepath.Base(path)).Parse(string(text))
		must(err)
	}
	for _, path := range paths {
		if filepath.Ext(path) == ".yaml" {
			fmt.Println("---")
			must(chart.ExecuteTemplate(os.Stdout, filepath.Base(path), values))
		}
	}
}
