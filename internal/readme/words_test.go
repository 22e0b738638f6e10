package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two minutes are for 600 words, tables and headings included. Code and addresses of links are no words.
func TestReadmeTakesTwoMinutes(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAll(text, nil)
	prose = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAll(prose, []byte("]"))
	words := regexp.MustCompile(`\S*[\pL\pN]\S*`).FindAll(prose, -1)
	require.LessOrEqual(t, len(words), 600)
	require.Greater(t, len(words), 350)
}

// All pages together are read in three hours.
func TestAllPagesTakeThreeHours(t *testing.T) {
	words := 0
	for _, text := range pages(t) {
		words += len(strings.Fields(text))
	}
	require.LessOrEqual(t, words, 40_000)
	require.Greater(t, words, 20_000)
}
