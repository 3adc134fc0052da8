// Macros and packaged objects of Office documents. Macros that run by themselves are work of honest offices, too: they are noted, and a
// threat only where they fetch and start something.

rule macro : flag {
  meta:
    name = "macro"
  condition:
    kind == "vba" or kind == "vba_project"
}

rule macro_runs_by_itself : flag {
  meta:
    name = "macro.autorun"
  strings:
    $procedure = /\b(sub|function)\s{1,10}(auto_?(open|exec|close|exit|new)|document_?(open|close|new|beforeclose)|workbook_(open|activate|close|beforeclose|beforesave|deactivate)|app_(documentopen|workbookopen)|\w{1,40}_(painted|painting|gotfocus|lostfocus|mousemove|layout|resize|change))\b/ nocase
  condition:
    kind == "vba" and $procedure
}

rule macro_fetches_and_starts : threat {
  meta:
    name = "Macro.Fetches-And-Starts"
  strings:
    $procedure = /\b(sub|function)\s{1,10}(auto_?(open|exec|close)|document_?(open|close|new)|workbook_(open|activate|close|beforeclose))\b/ nocase
    $fetch_a = "URLDownloadToFile" nocase
    $fetch_b = "MSXML2.XMLHTTP" nocase
    $fetch_c = "MSXML2.ServerXMLHTTP" nocase
    $fetch_d = "WinHttp.WinHttpRequest" nocase
    $fetch_e = "DownloadString" nocase
    $fetch_f = "DownloadFile" nocase
    $fetch_g = "bitsadmin" nocase
    $fetch_h = "certutil" nocase
    $start_a = "WScript.Shell" nocase
    $start_b = "Shell.Application" nocase
    $start_c = "ShellExecute" nocase
    $start_d = "powershell" nocase
    $start_e = /\bshell\s{0,4}[\( ]\s{0,4}["a-z]/ nocase
    $start_f = "win32_process" nocase
  condition:
    kind == "vba" and $procedure and any of ($fetch_*) and any of ($start_*)
}

rule macro_sheet : flag {
  meta:
    name = "macro.sheet"
  condition:
    kind == "macro_sheet"
}

rule package : flag {
  meta:
    name = "package"
  condition:
    kind == "package"
}

rule packaged_program : threat {
  meta:
    name = "Package.Program"
  condition:
    kind == "package" and (
      is_program_name
      or (offset == 0 and uint16(0) == 0x5A4D and uint32(0x3C) < filesize and uint32(uint32(0x3C)) == 0x00004550)
    )
}
