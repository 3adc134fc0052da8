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
    // the document saves one of its own attachments and starts it, as a named or as the fourth argument
    $export = "exportDataObject"
    $launch = "nLaunch"
    $fourth = /exportDataObject["'`\])\s]{0,20}(\.\s{0,10}call\s{0,10})?\(([^,;()]{0,200}(\([^()]{0,200}\))?[^,;()]{0,200},){3}/
    // the method is called in a roundabout way or passed on: its arguments may come from anywhere
    $bound = /exportDataObject["'`\])\s]{0,20}(\?\.|\.)\s{0,20}\[?["'`]?(apply|bind|call)/
    $index = /exportDataObject["'`\])\s]{0,20}\[\s{0,20}["'`a-zA-Z]/
    $alias = /[=:,(?|&{\[]\s{0,20}((this|event|doc|[a-zA-Z_$][a-zA-Z0-9_$]{0,30})\s{0,5}\??[.\[]\s{0,5}){0,4}["'`]?exportDataObject["'`\]\s]{0,20}([;,})|&?=:]|$)/
    $line = /[=:,(?|&]\s{0,20}((this|event|doc|[a-zA-Z_$][a-zA-Z0-9_$]{0,30})\s{0,5}\??[.\[]\s{0,5}){0,4}["'`]?exportDataObject["'`\]]{0,2}[ \t]{0,20}[\r\n]\s{0,20}[^\s(]/
  condition:
    kind == "pdf_script" and (($export and $launch) or $fourth or $bound or $index or $alias or $line)
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
    $extension = /\.(PROGRAM_EXTENSIONS)[. ]{0,20}(::?\$data)?(["'\s\)]|\x00|$)/ nocase
    $shell = "/bin/"
  condition:
    kind == "pdf_launch" and (is_program_name or any of them)
}
