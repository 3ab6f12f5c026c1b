// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// optionalText is a flag that takes a text or none.
type optionalText struct{ value *string }

// Set takes the text.
func (o *optionalText) Set(text string) error {
	o.value = &text
	return nil
}

func (o *optionalText) String() string {
	if o.value == nil {
		return ""
	}
	return *o.value
}

func (*optionalText) Type() string                   { return "[string]" }
func (*optionalText) takes(taken int, _ string) bool { return taken == 0 }

// placement is the flags that say where replicas go.
type placement struct {
	pools         list
	disklessPools list
	count         number
	apart         list
	apartRegex    optionalText
	same          list
	different     list
	atMost        list
	remaining     toggle
	layers        commas
	providers     commas

	diskless string // kind of diskless replica to place, or ""
	dry      bool   // show what would be done
}

// addTo declares the flags. The one that counts replicas has another name in some commands and none in others, and so has
// the short form of --providers.
func (p *placement) addTo(cmd *cobra.Command, providersShort string) {
	f := cmd.Flags()
	p.pools.addTo(f, "storage-pool", "s", "storage pools to use; none takes them away")
	p.disklessPools.addTo(f, "diskless-storage-pool", "", "storage pools for replicas without a disk")
	p.apart.addTo(f, "do-not-place-with", "", "resources that must not be on the same nodes")
	f.Var(&p.apartRegex, "do-not-place-with-regex", "names of resources that must not be on the same nodes")
	p.same.addTo(f, "replicas-on-same", "", "auxiliary node properties in which all nodes must agree")
	p.different.addTo(f, "replicas-on-different", "", "auxiliary node properties in which all nodes must differ")
	p.atMost.addTo(f, "x-replicas-on-different", "", "pairs of an auxiliary node property and the most replicas for one value of it")
	p.remaining.addTo(f, "diskless-on-remaining", "replicas without a disk on all other nodes")
	f.VarP(&p.layers, "layer-list", "l", "layers from top to bottom, such as drbd,luks,storage")
	f.VarP(&p.providers, "providers", providersShort, "kinds of storage pools to use, such as lvm_thin,zfs_thin")
}

// addCount declares the flag that counts replicas.
func (p *placement) addCount(cmd *cobra.Command) {
	cmd.Flags().Var(&p.count, "place-count", "number of replicas; 0 takes the number away")
}

// filter returns what the flags say. What was not given is absent.
func (p *placement) filter() (*client.AutoSelectFilter, error) {
	atMost, err := pairs(p.atMost)
	if err != nil {
		return nil, err
	}
	return &client.AutoSelectFilter{
		PlaceCount:              p.count.value,
		StoragePoolList:         p.pools,
		StoragePoolDisklessList: p.disklessPools,
		NotPlaceWithRsc:         p.apart,
		NotPlaceWithRscRegex:    p.apartRegex.value,
		ReplicasOnSame:          auxiliary(p.same),
		ReplicasOnDifferent:     auxiliary(p.different),
		XReplicasOnDifferent:    atMost,
		LayerStack:              upper[client.LayerType](p.layers),
		ProviderList:            upper[client.ProviderKind](p.providers),
		DisklessOnRemaining:     p.remaining.value,
	}, nil
}

const auxPrefix = "Aux/"

// auxiliary puts keys into the namespace of auxiliary properties.
func auxiliary(keys []string) []string {
	if keys == nil {
		return nil
	}
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = auxPrefix + strings.TrimPrefix(key, auxPrefix)
	}
	return out
}

// pairs reads "zone 2 rack 1".
func pairs(words []string) (map[string]client.Int32, error) {
	if words == nil {
		return nil, nil
	}
	if len(words)%2 != 0 {
		return nil, usagef("--x-replicas-on-different: %q has no number", words[len(words)-1])
	}
	out := make(map[string]client.Int32, len(words)/2)
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i+1], 10, 32)
		if err != nil || n < 1 {
			return nil, usagef("--x-replicas-on-different: %q: want a whole number from 1", words[i+1])
		}
		out[auxPrefix+strings.TrimPrefix(words[i], auxPrefix)] = client.Int32(n)
	}
	return out, nil
}
