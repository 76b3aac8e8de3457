"""The doctor: everything that must hold in a store, checked in one go, and mended where that is possible."""
