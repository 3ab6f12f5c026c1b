// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// ModifyNodeConnection changes what is set for the connections of two nodes, which may be named
// in either order. A connection that nothing is set for has no row: the row comes with the
// first property and goes with the last.
func (v *Inventory) ModifyNodeConnection(ctx context.Context, a, b string, c model.PropsChange) ([]errs.Notice, error) {
	if err := props.Accept(props.NodeConnection, &c); err != nil {
		return nil, err
	}
	id := v.NewID()
	var notices []errs.Notice
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		pair, err := Pair(tx, errs.NodeConnection, a, b)
		if err != nil {
			return err
		}
		if err := CheckPaths(tx, errs.NodeConnection, pair, c); err != nil {
			return err
		}
		row, exists := schema.NodeConnections.Get(tx, pair)
		if !exists {
			row = schema.NodeConnection{Pair: pair, UUID: id}
		}
		notices = schema.PropNotices(row.Props, c, errs.NodeConnection)
		row.Props = row.Props.Change(c)
		switch {
		case row.Props.Len() == 0 && !exists:
			return nil
		case row.Props.Len() == 0:
			return schema.NodeConnections.Delete(tx, pair)
		case !exists:
			return schema.NodeConnections.Insert(tx, row)
		default:
			return schema.NodeConnections.Update(tx, row)
		}
	})
	return notices, err
}

// Pair returns the pair of two nodes that exist. It refuses a node with itself.
func Pair(r store.Reader, object errs.Object, a, b string) (model.NodePairID, error) {
	first, err := schema.FindNode(r, a)
	if err != nil {
		return model.NodePairID{}, err
	}
	second, err := schema.FindNode(r, b)
	if err != nil {
		return model.NodePairID{}, err
	}
	if first.Name.Key() == second.Name.Key() {
		return model.NodePairID{}, errs.New(errs.Invalid, object, "node %s has no connection with itself", first.Name).
			Fix("name two different nodes")
	}
	return model.PairOf(first.Name.Key(), second.Name.Key()), nil
}

// pathsNamespace is where the paths of a connection are: Paths/PATH/NODE names the network
// interface that a node uses for a path.
const pathsNamespace = "Paths/"

// CheckPaths refuses paths through a node that is not one of the pair, or through a network
// interface that its node does not have. An interface may go later: the path is not used then.
func CheckPaths(r store.Reader, object errs.Object, pair model.NodePairID, c model.PropsChange) error {
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		path, isPath := strings.CutPrefix(key, pathsNamespace)
		if !isPath {
			continue
		}
		name, node, _ := strings.Cut(path, "/")
		end := model.NodeName(node).Key()
		refused := errs.New(errs.Invalid, object, "the path %s cannot be set", name).About(errs.Property)
		if end != pair.A && end != pair.B {
			return refused.Because("the property %q names the node %s, which is not an end of the connection", key, node).
				Fix("name %s or %s", schema.NameOfNode(r, pair.A), schema.NameOfNode(r, pair.B))
		}
		if _, err := schema.FindInterface(r, end, c.Set[key]); err != nil {
			return refused.Because("node %s has no network interface %s", schema.NameOfNode(r, end), c.Set[key]).
				Fix("use one of its interfaces: %s", interfaceNames(r, end))
		}
	}
	return nil
}

func interfaceNames(r store.Reader, node model.NodeKey) string {
	var names []string
	for i := range schema.InterfacesOf(r, node) {
		names = append(names, string(i.Name))
	}
	return strings.Join(names, ", ")
}
