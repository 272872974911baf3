//! Importers of foreign profiles, one file per format, chosen by content.
