// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// owner is a kind of object that has properties: the arguments that name one, and how to read and change its properties.
// Read returns an error of the controller when the object does not exist.
type owner struct {
	names []string
	read  func(ctx context.Context, s *session, names []string) (client.Properties, error)
	write func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error)
}

func (a *app) setProperty(o owner) *cobra.Command {
	var aux bool
	count := len(o.names)
	names := append(slices.Clone(o.names), "KEY")
	cmd := &cobra.Command{
		Use: "set-property " + strings.Join(names, " ") + " [VALUE]", Aliases: []string{"sp"},
		Short: "Set a property, or delete it when there is no value",
		Args:  between(count+1, count+2, names...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(o.write(ctx, s, args[:count], setOrDelete(args[count:], aux)))
		}),
	}
	cmd.Flags().BoolVar(&aux, "aux", false, "the key is one of the Aux/ namespace, which is free for all uses")
	return cmd
}

// setOrDelete sets the key of args to the value of args, or deletes it without a value.
func setOrDelete(args []string, aux bool) client.PropsModify {
	key := args[0]
	if aux {
		key = auxPrefix + strings.TrimPrefix(key, auxPrefix)
	}
	if len(args) == 1 || args[1] == "" {
		return client.PropsModify{DeleteProps: []string{key}}
	}
	return client.PropsModify{OverrideProps: client.Properties{key: args[1]}}
}

func (a *app) listProperties(o owner) *cobra.Command {
	cmd := &cobra.Command{
		Use: strings.TrimSpace("list-properties " + strings.Join(o.names, " ")), Aliases: []string{"lp"}, Short: "List properties",
		Args: between(len(o.names), len(o.names), o.names...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			props, err := o.read(ctx, s, args)
			if err != nil {
				return err
			}
			return s.properties(props)
		}),
	}
	pastable(cmd)
	return cmd
}

// properties prints properties in the order of their keys.
func (s *session) properties(props client.Properties) error {
	type pair struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	t := newTable("Key", "Value")
	pairs := []pair{}
	for _, key := range slices.Sorted(maps.Keys(props)) {
		t.row(key, props[key])
		pairs = append(pairs, pair{key, props[key]})
	}
	if s.form == text {
		return s.writeTable(t)
	}
	body, err := wire.Encode(pairs)
	if err != nil {
		return err
	}
	return s.listJSON(body)
}

func controllerProperties() owner {
	return owner{
		read: func(ctx context.Context, s *session, _ []string) (client.Properties, error) {
			return s.ControllerProperties(ctx)
		},
		write: func(ctx context.Context, s *session, _ []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyControllerProperties(ctx, client.ControllerPropsModify{PropsModify: modify})
		},
	}
}

func nodeProperties() owner {
	return owner{
		names: []string{"NODE"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			node, err := s.Node(ctx, names[0])
			return node.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyNode(ctx, names[0], client.NodeModify{PropsModify: modify})
		},
	}
}

func poolProperties() owner {
	return owner{
		names: []string{"NODE", "NAME"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			pool, err := s.StoragePool(ctx, names[0], names[1])
			return pool.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyStoragePool(ctx, names[0], names[1], client.StoragePoolModify{PropsModify: modify})
		},
	}
}

func groupProperties() owner {
	return owner{
		names: []string{"GROUP"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			group, err := s.ResourceGroup(ctx, names[0])
			return group.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyResourceGroup(ctx, names[0], client.ResourceGroupModify{PropsModify: modify})
		},
	}
}

func volumeGroupProperties() owner {
	return owner{
		names: []string{"GROUP", "VOLUME_NR"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			number, err := volumeNumber(names[1])
			if err != nil {
				return nil, err
			}
			volume, err := s.VolumeGroup(ctx, names[0], number)
			return volume.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			number, err := volumeNumber(names[1])
			if err != nil {
				return nil, err
			}
			return s.ModifyVolumeGroup(ctx, names[0], number, client.VolumeGroupModify{PropsModify: modify})
		},
	}
}

func definitionProperties() owner {
	return owner{
		names: []string{"RESOURCE"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			definition, err := s.ResourceDefinition(ctx, names[0])
			return definition.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyResourceDefinition(ctx, names[0], client.ResourceDefinitionModify{PropsModify: modify})
		},
	}
}

func volumeDefinitionProperties() owner {
	return owner{
		names: []string{"RESOURCE", "VOLUME_NR"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			number, err := volumeNumber(names[1])
			if err != nil {
				return nil, err
			}
			volume, err := s.VolumeDefinition(ctx, names[0], number)
			return volume.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			number, err := volumeNumber(names[1])
			if err != nil {
				return nil, err
			}
			return s.ModifyVolumeDefinition(ctx, names[0], number, client.VolumeDefinitionModify{PropsModify: modify})
		},
	}
}

func volumeProperties() owner {
	return owner{
		names: []string{"NODE", "RESOURCE", "VOLUME_NR"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			number, err := volumeNumber(names[2])
			if err != nil {
				return nil, err
			}
			volume, err := s.Volume(ctx, names[1], names[0], number)
			return volume.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			number, err := volumeNumber(names[2])
			if err != nil {
				return nil, err
			}
			return s.ModifyVolume(ctx, names[1], names[0], number, client.VolumeModify{PropsModify: modify})
		},
	}
}

func resourceProperties() owner {
	return owner{
		names: []string{"NODE", "RESOURCE"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			resource, err := s.Resource(ctx, names[1], names[0])
			return resource.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyResource(ctx, names[1], names[0], client.ResourceModify{PropsModify: modify})
		},
	}
}
