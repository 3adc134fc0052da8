// Programs under the names of documents, pictures, recordings or texts. A program under its own name is no threat here: which extensions
// are let in is decided by the rules of a context. A script under the name of a text is a text that somebody wants to read.

rule disguised_pe : threat {
  meta:
    name = "Disguised-Program.PE"
  condition:
    offset == 0 and says != "" and uint16(0) == 0x5A4D and uint32(0x3C) < filesize and uint32(uint32(0x3C)) == 0x00004550
}

rule disguised_elf : threat {
  meta:
    name = "Disguised-Program.ELF"
  condition:
    offset == 0 and says != "" and uint32(0) == 0x464C457F and (uint8(4) == 1 or uint8(4) == 2) and (uint8(5) == 1 or uint8(5) == 2)
    and uint8(6) == 1
}

rule disguised_macho : threat {
  meta:
    name = "Disguised-Program.Mach-O"
  condition:
    // the type of the file, MH_OBJECT to MH_FILESET, tells a program from four bytes of chance; the magic tells the byte order
    offset == 0 and says != "" and (
      ((uint32(0) == 0xFEEDFACE or uint32(0) == 0xFEEDFACF) and uint32(12) >= 1 and uint32(12) <= 15)
      or ((uint32be(0) == 0xFEEDFACE or uint32be(0) == 0xFEEDFACF) and uint32be(12) >= 1 and uint32be(12) <= 15)
      // a Java class has the magic of a universal binary, and its version, 45 or more, where that has its count of parts
      or (uint32be(0) == 0xCAFEBABE and uint32be(4) >= 1 and uint32be(4) <= 30)
    )
}

rule disguised_shortcut : threat {
  meta:
    name = "Disguised-Program.Shortcut"
  condition:
    offset == 0 and says != "" and uint32(0) == 0x0000004C and uint32be(4) == 0x01140200 and uint32be(8) == 0x00000000
    and uint32be(12) == 0xC0000000
}

rule disguised_script : threat {
  meta:
    name = "Disguised-Program.Script"
  strings:
    $a = /^#![ \t]*\/[\x21-\x7e]/
  condition:
    offset == 0 and says == "document" and $a at 0
}
