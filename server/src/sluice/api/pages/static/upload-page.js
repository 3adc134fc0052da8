// What the page says of the files that can still be sent stays right while the element sends some.
addEventListener("sluice-upload:stored", async () => {
  const response = await fetch(location.href);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  document.querySelector(".facts").replaceChildren(...page.querySelectorAll(".facts > li"));
});
