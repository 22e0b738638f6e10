package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

var hello = program{name: "hello", module: ".", pkg: ".", description: "says hello", args: []string{"-x"}, ports: []string{"9000/tcp"}}

// repository makes a repository with one commit of hello, tagged v1.2.3, as is a module in it. Its commit is always the
// same one.
func repository(t *testing.T) (dir string) {
	dir = t.TempDir()
	write(t, dir, "go.mod", "module example.com/hello\n\ngo 1.26.0\n")
	write(t, dir, "main.go", "package main\n\nfunc main() { println(\"hello\") }\n")
	git(t, dir, "init", "--quiet")
	commit(t, dir)
	git(t, dir, "tag", "inside/v1.2.3")
	git(t, dir, "tag", "v1.2.3")
	return dir
}

func commit(t *testing.T, dir string) {
	git(t, dir, "add", ".")
	git(t, dir, "-c", "commit.gpgsign=false", "commit", "--quiet", "-m", "x")
}

func git(t *testing.T, dir string, args ...string) {
	const when = "2026-01-02T03:04:05Z"
	env := []string{
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=" + when,
	}
	_, err := command.Output(dir, env, "git", args...)
	require.NoError(t, err)
}

func write(t *testing.T, dir, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// images builds the images of hello, and returns their directory.
func images(t *testing.T, repo string, archs ...string) (out string) {
	out = t.TempDir()
	src, err := clone(repo, filepath.Join(t.TempDir(), "source"))
	require.NoError(t, err)
	require.NoError(t, hello.write(src, archs, out))
	return out
}

// index returns the index of all architectures, after a check of each digest in it.
func index(t *testing.T, out string) v1.ImageIndex {
	root, err := layout.ImageIndexFromPath(filepath.Join(out, hello.name))
	require.NoError(t, err)
	require.NoError(t, validate.Index(root))
	manifest, err := root.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	require.Equal(t, "v1.2.3", manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	all, err := root.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return all
}

func TestTheSameCommitMakesTheSameBytes(t *testing.T) {
	repo := repository(t)
	first := images(t, repo, "amd64", "arm64")
	write(t, repo, "main.go", "package main\n\nfunc main() { println(\"not committed\") }\n")
	second := images(t, repo, "amd64", "arm64")
	other := images(t, repository(t), "amd64", "arm64")
	files := 0
	require.NoError(t, filepath.WalkDir(first, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(first, path)
		require.NoError(t, err)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, out := range []string{second, other} {
			got, err := os.ReadFile(filepath.Join(out, name))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), name)
		}
		files++
		return nil
	}))
	require.Greater(t, files, 8)

	before, err := index(t, first).Digest()
	require.NoError(t, err)
	commit(t, repo)
	git(t, repo, "tag", "-f", "v1.2.3")
	after, err := index(t, images(t, repo, "amd64", "arm64")).Digest()
	require.NoError(t, err)
	require.NotEqual(t, before, after, "another commit")
}

func TestWhatAnImageHasAndSays(t *testing.T) {
	out := images(t, repository(t), "amd64", "arm64")
	manifest, err := index(t, out).IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	for i, arch := range []string{"amd64", "arm64"} {
		require.Equal(t, arch, manifest.Manifests[i].Platform.Architecture)
		image, err := index(t, out).Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, "linux/"+arch, config.OS+"/"+config.Architecture)
		require.Equal(t, []string{"/hello"}, config.Config.Entrypoint)
		require.Equal(t, []string{"-x"}, config.Config.Cmd)
		require.Equal(t, "65532:65532", config.Config.User)
		require.Equal(t, map[string]struct{}{"9000/tcp": {}}, config.Config.ExposedPorts)
		require.Equal(t, "v1.2.3", config.Config.Labels["org.opencontainers.image.version"])
		require.Regexp(t, "^[0-9a-f]{40}$", config.Config.Labels["org.opencontainers.image.revision"])
		require.Equal(t, "2026-01-02T03:04:05Z", config.Config.Labels["org.opencontainers.image.created"])
		checkFiles(t, unpack(t, image), arch, config.Config.Labels["org.opencontainers.image.revision"])

		archive, err := tarball.ImageFromPath(filepath.Join(out, "hello-"+arch+".tar"), nil)
		require.NoError(t, err)
		require.True(t, maps.EqualFunc(unpack(t, image), unpack(t, archive), bytes.Equal), "the archive has other files")
	}
}

// checkFiles wants three files and nothing else, for a user who is not root.
func checkFiles(t *testing.T, files map[string][]byte, arch, revision string) {
	require.ElementsMatch(t, []string{"hello", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}, slices.Collect(maps.Keys(files)))
	binary, err := elf.NewFile(bytes.NewReader(files["hello"]))
	require.NoError(t, err)
	require.Equal(t, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch], binary.Machine)
	for _, p := range binary.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "not static")
	}
	built, err := buildinfo.Read(bytes.NewReader(files["hello"]))
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", built.Main.Version)
	stamps := map[string]string{}
	for _, s := range built.Settings {
		stamps[s.Key] = s.Value
	}
	require.Equal(t, revision, stamps["vcs.revision"])
	require.Equal(t, "false", stamps["vcs.modified"])
	require.Equal(t, "true", stamps["-trimpath"])

	require.Equal(t, "nonroot:x:65532:65532::/:/sbin/nologin\n", string(files["etc/passwd"]))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]))
	require.Greater(t, bytes.Count(files["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")), 80)
}

// unpack returns all entries of an image by name.
func unpack(t *testing.T, image v1.Image) map[string][]byte {
	r := mutate.Extract(image)
	defer r.Close()
	files := map[string][]byte{}
	for entries := tar.NewReader(r); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Zero(t, header.Mode&0o222, "%s can be written", header.Name)
		require.Zero(t, header.Uid+header.Gid)
		files[header.Name], err = io.ReadAll(entries)
		require.NoError(t, err)
	}
}

func TestMistakesOfTheCommandLine(t *testing.T) {
	require.ErrorContains(t, run([]string{"sshd"}), `program "sshd", must be echo-heartbeat or timeoutd`)
	require.ErrorContains(t, run([]string{"-repo", t.TempDir(), "-out", t.TempDir()}), "git clone")
}
