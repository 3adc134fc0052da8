"""What several formats of office documents share: compound files, OOXML packages, drawings, ZIP documents, RTF."""
