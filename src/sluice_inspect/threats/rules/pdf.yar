// What PDF documents do by themselves. Scripts in forms are common and honest: they are noted.

rule pdf_script : flag {
  meta:
    name = "script.pdf"
  condition:
    kind == "pdf_script"
}

rule pdf_script_launches : threat {
  meta:
    name = "Pdf.Launches-Attachment"
  strings:
    // the document saves one of its own attachments and starts it
    $export = "exportDataObject"
    $launch = /nLaunch["']?\s{0,10}:\s{0,10}[12]/
  condition:
    kind == "pdf_script" and all of them
}

rule pdf_launch : flag {
  meta:
    name = "launch.pdf"
  condition:
    kind == "pdf_launch"
}

rule pdf_launches_program : threat {
  meta:
    name = "Pdf.Launches-Program"
  strings:
    $program = /(cmd|powershell|pwsh|mshta|wscript|cscript|rundll32|regsvr32|certutil|bitsadmin|msiexec|wmic|bash|osascript)(\.exe)?([\s"'\)\/]|$)/ nocase
    $extension = /\.(exe|scr|pif|com|bat|cmd|vbs|vbe|js|jse|wsf|wsh|hta|ps1|lnk|jar|msi|cpl|dll|reg|app|command|sh)(["'\s\)]|$)/ nocase
    $shell = "/bin/"
  condition:
    kind == "pdf_launch" and any of them
}
