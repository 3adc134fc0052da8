"""What is behind a short tag: code of PHP, or the pixels of a photo that is not compressed."""

import numpy as np

from sluice_inspect.text.active_content import ActiveContentFinder
from sluice_inspect.text.php_code import may_be_php_code
from tests.inspection.second_formats import PHP
from tests.rows import each_row
from tests.run_length import amount

# Behind the tag. All but the last three, which version 7 runs, pass `php -l` of version 8.2.
CODE = (
    b'system/**/("id")?>', b'#\rsystem("id");', b'=system(...)("id")?>', b'=(system)("id")?>',
    b'=[system][0]("id")?>', b'=1,2,system("id")?>', b'#[A]fn()=>1;system("id")?>', b'="system"("id")?>',
    b'=("sys"."tem")("id")?>', b'=system("id");#\xff\xfe\n?>', b'=system("id")#x?>',
    b"=`id`;__halt_compiler();\xff(((", b"=`{$_GET[0]}`?>", b"=`$_GET[0]`;", b"=system($_GET[0])?>",
    b"eval($_POST[1]);", b"=$_GET[0]($_GET[1]);", b'if(1):system("id");endif?>', b'if(1)system("id");else exit?>',
    b'while(1){system("id");}', b'for(;;)system("id")?>', b'for($i=0;$i<1;$i++)system("id")?>',
    b'foreach([1]as$a)system("id")?>', b'switch(1){case 1:system("id");}', b'function f($a){system($a);}f("id");',
    b'(function(){system("id");})();', b'(fn()=>system("id"))();',
    b'class A{function __destruct(){system("id");}}new A;', b'namespace A;\\system("id");',
    b'use function system as s;s("id");', b"=namespace\\f(1)?>", b'$a="sys$b";$a("id")?>', b"$a='a'^'b';$a('id');",
    b'=array_map("system",["id"])?>', b"=array_map(system,[id])[0]?>", b'$a=[system];$a[0]("id")?>', b'=$$a("id")?>',
    b'=${"a"}("id")?>', b'=${a}("id")?>', b'=A::b("id")?>', b'=(new A)->b("id")?>', b'=$a->b->c("id")?>',
    b'=$a?->b("id")?>', b'=$a::{"b"}("id")?>', b'=$a->{"b"}("id")?>', b'=match(1){1=>system("id")}?>',
    b'=1?:system("id")?>', b'=1?2:system("id")?>', b'=null??system("id")?>', b'=1&&system("id")?>',
    b'=!$a=system("id")?>', b'=+-~@system("id")?>', b'=1+1.5e3.system("id")?>', b'=0x1f|system("id")?>',
    b'=-1**2<=>system("id")?>', b'=print system("id")?>', b'[$a,[,$b]]=[1,[2,3]];system("id")?>',
    b'list($a)=[system];$a("id")?>', b'static $a=1;system("id")?>', b'const A=1;system("id")?>',
    b'global$a,$b;system("id")?>', b'echo 1,system("id")?>', b'try{system("id");}catch(E $e){}',
    b'try{}catch(E|F $e){}finally{}system("id")?>', b'goto a;a:system("id")?>', b'a:b:c:system("id")?>',
    b'do{system("id");}while(0)?>', b'do system("id");while(0)?>', b';;;system("id")?>', b'{{{system("id");}}}',
    b'declare(ticks=1){system("id");}', b'=system(command:"id")?>', b'=system("id",)?>', b'=(string)system("id")?>',
    b'=b"system"("id")?>', b"=b'system'('id')?>", b"=<<<A\nsystem\nA?>", b'=(<<<A\nsystem\nA)("id")?>',
    b"=system(<<<A\nid\nA);",
    b'abstract class A{public static ?int $a=1;function b(?int $x,int|string ...$y):?int{system("id");}}A::b(1);',
    b'final class A extends B implements C{use D;const E=1;}system("id")?>',
    b'enum A:string{case B="x";}system("id")?>', b'interface A{function b();}system("id")?>',
    b'trait A{}system("id")?>', b'$f=function()use(&$a):int{return system("id");};$f()?>',
    b'$a=&$b;$a["x"]["y"]("id")?>', b"=@$_GET[0]?>", b'=$GLOBALS["a"]("id")?>', b'throw new E(system("id"))?>',
    b'return system("id")?>', b'exit(system("id"))?>', b"die?>", b'exit(system("id"))or die;', b'include"x"?>',
    b"include_once(f.g)?>", b'require $a.".php"?>', b'assert(system("id"))?>', b'unset($a,$b);system("id")?>',
    b'=isset($a[0])&&system("id")?>', b'=empty($a)||system("id")?>', b'=$a++ + ++$a.system("id")?>',
    b'$a->b=1;$a->c+=2;system("id")?>', b'A::$b=system("id")?>', b'$a.=system("id")?>', b'$a??=system("id")?>',
    b'=$a instanceof B or system("id")?>', b'=1 and system("id")?>', b"=clone $a?>",
    b'if(1):elseif(2):else:system("id");endif?>', b"=`id;w|sh&&ls`?>", b"=`cat /etc/passwd 2>&1`?>", b"=`(id)`?>",
    b"=`'i'd`?>", b"=`/???/id <x >y`?>", b"=`#\nid`?>", b"=`\nid`?>", b"=`id &`?>", b'=`echo "a;b" | sh`?>',
    b"=`a=\\`id\\`;$a`?>", b"=`${_GET}[0]`?>", b'=1 .system("id")?>', b'="a$b[0]c"."{$a["b"]("id")}"?>',
    b'$a=fn()=>system("id");$a()?>', b"=(fn()=>`id`)()?>", b'=new class(system("id")){}?>', b"=new($_GET[0])(1)?>",
    b'readonly class A{}system("id")?>', b'=static::f(system("id"))?>', b'=[...[1],system("id")]?>',
    b'=1<2==system("id")?>', b'=-(1)."a"[0].system("id")?>', b'=A[0]("id")?>', b'=A::B[0]("id")?>',
    b"eval/**/($_POST[1]);", b'$_="{$_POST[1]}";eval/**/($_);', b"='system'/**/('id')?>",
    b'=\n#a\n"system"#b\n("id")?>', b"=1;`id`;", b'1;2;3;system("id");', b'=$a=system;$a("id")?>',
    b"=a;system('id')?>", b'="".$f("id")?>', b'=eval("x")?>', b'eval("x")?>', b'=dl("x")?>', b'=$x("id")?>',
    b'=$x?->y::z("a")?>', b'=__FILE__.system("id")?>', b'=("a")("id")?>', b'="{$x}"("id")?>', b'="${x}"("id")?>',
    b'=$ {"a"}("id")?>', b'=$/**/$a("id")?>', b'=(fn(?int $x)=>system("id"))(1)?>', b'=A\\b("id")?>',
    b'=\\A\\b("id")?>', b'=namespace\\f("id")?>', b'=$a[]=system("id")?>', b'=1?2?system("id"):3:4?>',
    b'switch(1):case 1:system("id");endswitch?>', b'while(0):endwhile;system("id")?>',
    b'if(1){}elseif(2){}else{}system("id")?>', b'function&f():?A{system("id");}f()?>',
    b'=(function()use($a){system("id");})()?>',
    b'class A{use B,C{B::x insteadof C;C::x as private y;}function f(){system("id");}}', b'=A::{"b"}("id")?>',
    b'class A extends \\B{public readonly int $x;protected static $y=[1];private const Z="a";}system("id")?>',
    b'#[A(1)]\nfunction f(#[B]$x){system("id");}f(1)?>', b'=new(A::class)(system("id"))?>',
    b'=[1=>2,"a"=>system("id")]?>', b'foreach($a as$k=>$v)system("id")?>',
    b'foreach($a as[$k,$v]):system("id");endforeach?>', b'for(;;):system("id");endfor?>',
    b'try{throw new E;}catch(\\E){system("id");}', b'=match(true){default=>system("id"),}?>', b'=-.5.system("id")?>',
    b'=!!system("id")?>', b'=$a-->0?system("id"):0?>', b'$a=<<<"X"\nabc\nX;system("id")?>',
    b'unset($a);system("id")?>', b'@$a=&f(system("id"))?>', b'$a=&$b->f("id")?>', b'die(system("id"))?>',
    b'=<<<A\n`\nA."x"?>', b'=PHP_EOL.system/**/("id")?>', b'=SYSTEM("id")?>', b'EVAL("x")?>', b'IF(1)SYSTEM("id")?>',
    b'=call_user_func(...["system","id"])?>', b"=iterator_apply($a,system)?>", b'$a=[$b,"c"];$a()?>', b"=[$a,b]()?>",
    b'="A::b"("id")?>', b'=\x01system("id")?>', b' \\ system("id");', b'$a{0}("id")?>',
)  # fmt: skip
WRONG_CODE = (
    b'=1("id")?>', b'=system("id")1;', b'=5=system("id");', b'=()system("id");', b'={system("id")}?>', b'=1=>f("id");',
    b'=1[0].system("id");', b'system("id"),1?>', b'=a b("id");', b'=f("id"];', b'=[f("id")?>', b'=f("id")?1;',
    b'=*f("id");', b'=.f("id");', b'=f("id"):1;', b'="a"++.f("id");', b"=A++.f(1);", b'=f("id")@1;', b"=`<;`;",
    b"=`?>`;", b'=f("id")!1;', b"=f(&);", b'=f("id"):;', b'=f(;"id");', b'=a;=f("id");', b"=`a;;b`;", b'=$a$b("id");',
    b'="a""b".f(1);', b'=f("id")->1;', b'=2A6.f("id");', b"=A96();/7/>26%21", b"B9E(6);8:",
)  # fmt: skip
PIXELS = (
    b"=2A6+@5*F22H2.H3/G9.C65M1.N+-E4.H/:C20I53G80E00K=3F6.G7+I61B/1I75L4(K0+E75D7/A2)N71M1*F7",
    b"@><FM?6G6GD(A556<B@C?KKF.5-:?OK87<?PA<<8DL8D<9A?35;3-=E8D:6=8=;<2/?3..I:62A24?BF67;A5:81",
    b"$DC+CYO&04:'bK=0;\x1eBU<D4\x15-e*0T81S(OK-1Y1&.\"VD2;X34):>;%2[,A9);_3F1-9YAME+OR6<@T7<\x1a-64%>)7",
    b'\'"QH?I5?]K)XGBNC9Y()/<018>E3,\':=6+744*6V7BM=2J"CHC8J;>4%9A/S:>KB?;FE/P.VMF>O/Q"96=AHQ2R?/',
    b"8)AF-4<3D1/C'7D9-MC0:F@98,2D7=001AFD(1D-=G<:G<9,:6:3?8<78>5CBJ020<;=G86D.;B><47G9C?F/2LD",
    b"`9@_:?^;B`;B^<>`8Aa7A`8C`;B`>@`;Bb7Ab<Ca=Bb;B^=Cc9?^;Bb<D",
    b"`?Aa7=`;@d<C_=?`9?]7@\\9@[8A",
    b"`<?`;?_;@_9>_9>_9>^9>^9=^8",
    b";`UBWMD>P4PFGGI6N4ELJUGOJYGXZ=P6GZETPFE.==:BR-ED?.@;X:?UA`;A>0B4@LAkVACPO:bAM7H5@KBE6LU8",
    b"`9=b?8]::Z>?^<8]<<];=];>]<;^;:]:9\\9=b<=_9<_=9`;=_:>^8?_;?a8A[<>d==a<=^<>c<=`8>",
)


def _may_be_code(behind: bytes) -> bool:
    is_echo = behind.startswith(b"=")
    return may_be_php_code(behind.removeprefix(b"="), is_echo=is_echo)


@each_row("behind", CODE)
def test_code_of_php_may_run(behind: bytes) -> None:
    assert _may_be_code(behind)


@each_row("behind", [*WRONG_CODE, *PIXELS])
def test_what_php_cannot_parse_is_no_code(behind: bytes) -> None:
    assert not _may_be_code(behind)


def _photo(seed: int) -> bytes:
    """Return pixels of shades that change slowly, with the noise of a sensor, around those that make marks."""
    chance = np.random.default_rng(seed)
    rows, columns, channels = 250, 400, (3, 1, 3, 4)[seed % 4]
    shades = (
        np.linspace(40, 90, columns) + chance.normal(0, 8, (rows, 1)) + chance.normal(0, 2, channels)[:, None, None]
    )
    noise = chance.normal(0, (3, 6, 10, 14)[seed // 4 % 4], (channels, rows, columns))
    pixels = np.clip(shades + noise, 0, 255).astype(np.uint8)
    return pixels.tobytes() if seed % 3 == 0 else pixels.transpose(1, 2, 0).tobytes()


def test_pixels_of_photos_hold_no_script_but_one_that_is_hidden() -> None:
    for seed in range(amount("PHOTOS", short=48, full=400)):
        photo = _photo(seed)
        found = [words for _, words in ActiveContentFinder(text_like=False).find(photo) if "PHP" in words]
        assert not found, seed
        middle = len(photo) // 2
        for script in (PHP, b"<?=`$_GET[0]`;", b"<?eval($_POST[1])?>"):
            hidden = photo[:middle] + script + photo[middle:]
            assert [at for at, words in ActiveContentFinder(text_like=False).find(hidden) if "PHP" in words] == [middle]
