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
    $procedure = /SELF_STARTING/ nocase
  condition:
    kind == "vba_code" and $procedure
}

rule macro_fetches_and_starts : threat {
  meta:
    name = "Macro.Fetches-And-Starts"
  strings:
    $procedure = /SELF_STARTING/ nocase
    // functions and objects of Windows
    $fetch_a = /URLDownloadTo(Cache)?File|URLOpen(Blocking|Pull)?Stream|InternetOpenUrl|InternetReadFile|HttpSendRequest|WinHttpReadData/ nocase
    $fetch_b = /\b((MSXML2|Microsoft)\.(Server)?|New (Server)?|As (Server)?)XMLHTTP/ nocase
    $fetch_c = /WinHttpRequest\b/ nocase
    // PowerShell
    $fetch_d = /Download(String|File|Data)\b|OpenRead\(|Net\.(WebClient|Http\.|WebRequest|Sockets)|Invoke-(WebRequest|RestMethod)|Start-BitsTransfer/ nocase
    $fetch_e = /\b(iwr|irm) +(-\w|[\('$]|https?:)/ nocase
    // programs that fetch what an address names, in a command
    $fetch_f = /"[^"\n]*\b(curl|wget|bitsadmin|certutil|certoc|desktopimgdownldr|mshta)(\.exe)?\b/ nocase
    $fetch_g = /"[^"\n]*\b(regsvr32|rundll32|msiexec|hh|ftp|cmdl32|installutil)(\.exe)?\b[^"\n]*(https?:|ftp:|\\\\)/ nocase
    $fetch_h = /"script:/ nocase
    $start_a = /WScript\.Shell\b|WshShell\b|Shell\.Application\b|\bSchedule\.Service\b|\bMMC20\.Application\b/ nocase
    $start_b = /\b(ShellExecute(Ex)?[AW]?|WinExec|CreateProcess[A-Z]{0,10})\b/ nocase
    $start_c = /\b(powershell|pwsh|schtasks|wmic)\b/ nocase
    $start_d = /\bshell( ?\(| ["a-z])/ nocase
    $start_e = /\bwin32_process\b|"(winmgmts|script|new):/ nocase
    $start_f = /"[^"\n]*\b(cmd|mshta|wscript|cscript|rundll32|regsvr32|msiexec)(\.exe)? / nocase
  condition:
    kind == "vba_code" and $procedure and any of ($fetch_*) and any of ($start_*)
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
