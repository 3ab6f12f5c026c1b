// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

// mostLosses is how many lines of a question say what will be lost, one by one.
const mostLosses = 20

// losses returns a line for each replica that a filter selects, with what is in it.
func (s *session) losses(ctx context.Context, filter client.ResourceFilter) ([]string, error) {
	all, err := s.AllResources(ctx, filter)
	return fewer(namesIn(all, loss)), err
}

// loss says what a replica is.
func loss(r client.ResourceWithVolumes) string {
	line := "resource " + r.Name + " on " + r.NodeName
	var volumes []string
	for _, v := range r.Volumes {
		volume := fmt.Sprintf("volume %d", v.VolumeNumber)
		if size := knownSize(usable(v)); size != "" {
			volume += " of " + size
		}
		volumes = append(volumes, volume)
	}
	if len(volumes) > 0 {
		line += ": " + strings.Join(volumes, ", ")
	}
	if inUse(r) {
		line += ", in use"
	}
	return line
}

// volumeLosses says what goes with a volume definition.
func (s *session) volumeLosses(ctx context.Context, resource string, number int32) ([]string, error) {
	all, err := s.AllResources(ctx, client.ResourceFilter{Resources: []string{resource}})
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range all {
		r.Volumes = slices.DeleteFunc(r.Volumes, func(v client.Volume) bool { return v.VolumeNumber != number })
		if len(r.Volumes) > 0 {
			lines = append(lines, loss(r))
		}
	}
	return fewer(lines), nil
}

// fewer leaves lines out when there are too many to be read.
func fewer(lines []string) []string {
	if len(lines) <= mostLosses {
		return lines
	}
	return append(slices.Clone(lines[:mostLosses]), fmt.Sprintf("and %d more", len(lines)-mostLosses))
}

// definitionLosses says what goes with definitions, of which some have data: without any there is nothing to ask about.
func (s *session) definitionLosses(ctx context.Context, names []string) ([]string, error) {
	replicas, err := s.AllResources(ctx, client.ResourceFilter{Resources: names})
	if err != nil || len(replicas) == 0 {
		return nil, err
	}
	definitions, err := s.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{ResourceDefinitions: names})
	if err != nil {
		return nil, err
	}
	lines := namesIn(replicas, loss)
	for _, d := range definitions {
		if !slices.ContainsFunc(replicas, func(r client.ResourceWithVolumes) bool { return r.Name == d.Name }) {
			lines = append(lines, "resource definition "+d.Name+", which has no replicas")
		}
	}
	return fewer(lines), nil
}
