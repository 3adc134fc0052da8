"""A form whose files go through Sluice before the application sees them: Flask."""

from flask import Flask, render_template_string, request

from sluice_client import FileRejected, Sluice, SluiceError

PAGE = """<!doctype html><title>Claim</title>
{% if sentence %}<p role="status">{{ sentence }}</p>{% endif %}
<form method="post" enctype="multipart/form-data"><input type="file" name="file" required><button>Send</button></form>"""

app = Flask(__name__)
sluice = Sluice()  # reads SLUICE_URL and SLUICE_API_KEY


@app.get("/")
def form() -> str:
    """Show the form."""
    return render_template_string(PAGE)


@app.post("/")
def send() -> tuple[str, int]:
    """Store the file, or show the sentence for its sender."""
    file = request.files.get("file")
    if file is None or not file.filename:
        return render_template_string(PAGE, sentence="Please choose a file."), 400
    try:
        stored = sluice.files.upload(file.stream, filename=file.filename, context="claims")
    except FileRejected as rejection:
        sentence = rejection.report.message if rejection.report else rejection.message
        return render_template_string(PAGE, sentence=sentence), 400
    except SluiceError:
        return render_template_string(PAGE, sentence="Files cannot be received now. Please try again later."), 503
    # `stored.file_id` is what the application keeps.
    return render_template_string(PAGE, sentence=f"Thank you: we have {stored.original_filename}."), 201
