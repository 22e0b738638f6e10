package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const home = "https://github.com/heartwheel-go/heartwheel"

// write writes the OCI layout of a program, and the archive of each architecture.
func (p program) write(src source, archs []string, out string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	tag, err := name.NewTag("localhost/heartwheel/" + p.name + ":" + src.version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, arch := range archs {
		image, err := p.image(src, arch)
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(filepath.Join(out, p.name+"-"+arch+".tar"), tag, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir := filepath.Join(out, p.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": src.version})
	if err := written.AppendIndex(index, named); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s %s %s\n", digest, tag, dir)
	return nil
}

// image makes the image of a program for one architecture.
func (p program) image(src source, arch string) (v1.Image, error) {
	binary, err := src.build(p, arch)
	if err != nil {
		return nil, err
	}
	packed, err := layer(files(p, binary), src.time)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   packed,
		History: v1.History{Created: v1.Time{Time: src.time}, CreatedBy: "scripts/image", Comment: src.revision},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: src.time}
	config.Config = p.config(src)
	return mutate.ConfigFile(image, config)
}

// config returns how a container is started.
func (p program) config(src source) v1.Config {
	config := v1.Config{
		User:         user + ":" + user,
		Entrypoint:   []string{"/" + p.name},
		Cmd:          p.args,
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{},
		Labels: map[string]string{
			"org.opencontainers.image.title":         p.name,
			"org.opencontainers.image.description":   p.description,
			"org.opencontainers.image.url":           home,
			"org.opencontainers.image.source":        home,
			"org.opencontainers.image.documentation": home + "/tree/" + src.revision + "/cmd/" + p.name,
			"org.opencontainers.image.licenses":      "MIT",
			"org.opencontainers.image.version":       src.version,
			"org.opencontainers.image.revision":      src.revision,
			"org.opencontainers.image.created":       src.time.Format(time.RFC3339),
		},
	}
	for _, port := range p.ports {
		config.ExposedPorts[port] = struct{}{}
	}
	return config
}
