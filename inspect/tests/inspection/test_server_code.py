"""What is printable between the marks of a server page: code, or pixels."""

from sluice_inspect.text.server_code import may_be_server_code
from tests.rows import each_row

CODE = (
    b"%>", b"! int a = 1; %>", b'!void x(){y("id");}%>', b"=1<2%>", b": Eval(1) %>", b'= x("a" & b) %>', b"=a?b:c%>",
    b'Process p = new ProcessBuilder("x").start();%>', b"\nfor (int i=0;i<1;i++) {}%>", b" } else { %>", b" x++; %>",
    b'Response.Write"x"%>', b' If a="b" Then %>', b" x = 1 ' a ( comment %>", b" REM it isn't (\n x() %>", b"=i%%>",
    b' s = @"c:\\" + t; %>', b' s = "a\\"b"; %>', b" c = '\\''; %>", b" foo(/* ( */ 1) // )\n%>", b" var i = ^1; %>",
    b" List<int> a = new List<int>(); %>", b" d = #1/1/2020# %>", b' x = a["k"](1) %>', b" while (true) %>",
    b' case "a": %>', b' With a\n.Write "x"\nEnd With %>', b' x = "a" _\n & "b" %>', b" Dim s$ : s$ = Chr(1) %>",
    b'\n<!--"-->\nexecute x%>', b"#@~^CQAAAA==d!4~^#~@%>", b"\n+AHIAZQBzAHAAbwBuAHMAZQ-\n%>", b" \\u0065val(x); %>",
    b" If a=1Then b %>", b" x = 0x1F + 1.5f + 10L; %>", b" x = &H1F %>", b" d = #10:00 AM# %>",
    b" x? y = null; %>", b"=$(1)%>",
)  # fmt: skip
PIXELS = (
    b"G>'G;%>", b"#<'%>", b"=<%>", b"@=%@=%;=!;=!;>!;>!@>%@>%>", b'FD$DB"@B!>>!<=$@D">@$?@%?<;$;7!95%<"<<$<@%>',
    b"I='SG'K?'OC(VL$F;$@9$B7\"<4$F:$>3%@2%F=$B9$G?\"@8\"F?'OI%GB%ME'QI\\[$KI\"KH'TW%>", b"a[(1])%>", b"x=`1`%>",
    b"B7%>", b";8%>", b"=3%>", b"$=$#9&%>", b"!:&%>", b"/3%>", b"Q4&S8/_C?nTOybEjV5RB%>",
    b"H:$G9$G9%F8%F8&C4$A2%>", b"=LD-ZR?MD:ZS@PI7JC%>",
)  # fmt: skip


@each_row("text", CODE)
def test_code_of_every_language_may_run(text: bytes) -> None:
    assert may_be_server_code(text)


@each_row("text", PIXELS)
def test_pixels_are_no_code(text: bytes) -> None:
    assert not may_be_server_code(text)
