// Scripts in pictures and pages. A page may have scripts: they are noted. A picture that was uploaded has no use for one but to run in the
// browser of whoever opens it.

rule svg_script : threat {
  meta:
    name = "Svg.Script"
  condition:
    kind == "svg_script" // found by the XML parser: threats/drawing.py
}

rule html_script : flag {
  meta:
    name = "script.html"
  strings:
    $element = /<script[\s>\/]/ nocase
  condition:
    kind == "html" and $element
}

rule smuggled_program : threat {
  meta:
    name = "Script.Smuggled-Program"
  strings:
    // a Windows program in base64, as text of a script
    $program = /["'`]TV(qQ|pQ|oA|rA)[A-Za-z0-9+\/]{60}/
    $decoded = /\batob\s{0,10}\(/
    $saved_a = "msSaveOrOpenBlob"
    $saved_b = "msSaveBlob"
    $saved_c = "createObjectURL"
    $saved_d = /\.download\s{0,10}=/
  condition:
    (kind == "html" or kind == "svg") and $program and $decoded and any of ($saved_*)
}
