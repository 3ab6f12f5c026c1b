// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Properties maps full keys, such as DrbdOptions/Net/protocol, to values.
type Properties map[string]string

// PropsModify is part of every modifying request: it sets or replaces keys, deletes keys, and deletes all keys below a
// namespace. What it does not name stays.
type PropsModify struct {
	OverrideProps    Properties `json:"override_props,omitempty"`
	DeleteProps      []string   `json:"delete_props,omitempty"`
	DeleteNamespaces []string   `json:"delete_namespaces,omitempty"`
}

// IsZero reports whether the request changes no property.
func (m PropsModify) IsZero() bool {
	return len(m.OverrideProps) == 0 && len(m.DeleteProps) == 0 && len(m.DeleteNamespaces) == 0
}

// PropertySource is a property value and the kind of object that it comes from.
type PropertySource struct {
	Type  string `json:"type"` // such as RESOURCE or RESOURCE_DEFINITION
	Value string `json:"value"`
	Descr string `json:"descr,omitempty"`
}

// EffectiveProperty is the value that holds, and the values that it hides.
type EffectiveProperty struct {
	PropertySource

	Other []PropertySource `json:"other,omitempty"`
}

// EffectiveProperties maps keys to the values that hold.
type EffectiveProperties map[string]EffectiveProperty

// PropsInfo describes a known property: what it means and which values it takes.
type PropsInfo struct {
	Key      string `json:"key,omitempty"` // in a list; a map has it already
	Info     string `json:"info,omitempty"`
	PropType string `json:"prop_type,omitempty"`
	Value    string `json:"value,omitempty"` // a pattern or the list of allowed values
	Dflt     string `json:"dflt,omitempty"`
	Unit     string `json:"unit,omitempty"`
}

// PropsInfoMap maps keys of known properties to their descriptions.
type PropsInfoMap map[string]PropsInfo

// PropsInfoAll maps object types to their known properties.
type PropsInfoAll map[string]PropsInfoMap

// ControllerPropsModify changes the controller's properties.
type ControllerPropsModify struct {
	PropsModify
}

// KeyValueStore is a named bag of properties that a client keeps for itself. It exists while it has a key.
type KeyValueStore struct {
	Name  string     `json:"name"`
	Props Properties `json:"props,omitempty"`
}

// KeyValueStoreModify changes a key-value store, and makes or removes it with its first and last key.
type KeyValueStoreModify struct {
	PropsModify
}
