// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// A schema: rooms, and desks that stand in them. Numbers are unique in a room.

type Room struct {
	Name    string
	Closing bool
}

type DeskKey struct {
	Room string
	Name string
}

type Desk struct {
	Key    DeskKey
	Number int
	Square int64 // centimetres
}

type RoomNumber struct {
	Room   string
	Number int
}

func declare() (
	*store.Collection[string, Room], *store.Collection[DeskKey, Desk], *store.Index[DeskKey, Desk, RoomNumber], *store.Total[DeskKey, Desk, string],
) {
	rooms := store.Define("room", func(r *Room) string { return r.Name },
		store.Closing(func(r *Room) bool { return r.Closing }))
	desks := store.Define("desk", func(d *Desk) DeskKey { return d.Key },
		store.ChildOf(rooms, func(d *Desk) []string { return []string{d.Key.Room} }))
	numbers := store.Unique(desks, "number", func(d *Desk) []RoomNumber { return []RoomNumber{{d.Key.Room, d.Number}} })
	used := store.Sum(desks, "used", func(d *Desk, add func(string, int64)) { add(d.Key.Room, d.Square) })
	return rooms, desks, numbers, used
}

func Example() {
	rooms, desks, numbers, used := declare()
	ctx := context.Background()
	s, err := store.Open(ctx, kvtest.NewMemory(), []store.Registered{rooms, desks})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()

	// A use case is one update: all of it is durable when it answers, or nothing is there.
	place := func(room, name string, square int64) error {
		_, err := s.Update(ctx, func(tx *store.Tx) error {
			free, ok := numbers.Free(tx, RoomNumber{room, 1}, RoomNumber{room, 99})
			if !ok {
				return fmt.Errorf("no number is free in %s", room)
			}
			return desks.Insert(tx, Desk{Key: DeskKey{room, name}, Number: free.Number, Square: square})
		})
		return err
	}
	fmt.Println(place("attic", "oak", 4200))
	_, err = s.Update(ctx, func(tx *store.Tx) error { return rooms.Insert(tx, Room{Name: "attic"}) })
	fmt.Println(err, place("attic", "oak", 4200), place("attic", "elm", 3600))

	// A view is one revision, in order, without waiting.
	v := s.Snapshot()
	for d := range desks.All(v) {
		fmt.Println(d.Key.Name, d.Number)
	}
	fmt.Println(used.Of(v, "attic"))

	_, err = s.Update(ctx, func(tx *store.Tx) error { return rooms.Delete(tx, "attic") })
	var needed *store.ChildrenError
	fmt.Println(errors.As(err, &needed), err)

	// Output:
	// desk attic/oak needs room attic, which does not exist
	// <nil> <nil> <nil>
	// elm 2
	// oak 1
	// 7800
	// true room attic is still needed by 2 of desk: attic/elm, attic/oak
}

func ExampleStore_Watch() {
	rooms, desks, _, _ := declare()
	ctx := context.Background()
	s, err := store.Open(ctx, kvtest.NewMemory(), []store.Registered{rooms, desks})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()

	// A loop looks at the whole state once, and then at what changes. When it was too slow it begins again.
	v := s.Snapshot()
	fmt.Println(rooms.Len(v), "rooms")
	for i := range 2 {
		if _, err := s.Update(ctx, func(tx *store.Tx) error {
			return rooms.Insert(tx, Room{Name: fmt.Sprint("room ", i)})
		}); err != nil {
			fmt.Println(err)
		}
	}
	for commit, err := range s.Watch(ctx, v.Revision()) {
		if errors.Is(err, store.ErrCompacted) {
			fmt.Println("look at the whole state again")
		}
		for _, change := range commit.Changes {
			if name, old, new, ok := rooms.Changed(change); ok {
				fmt.Println(name, old != nil, new != nil)
			}
		}
		if commit.Revision == 2 {
			break
		}
	}

	// Output:
	// 0 rooms
	// room 0 false true
	// room 1 false true
}
