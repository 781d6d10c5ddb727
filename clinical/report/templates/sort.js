// A click on a heading sorts the rows by that column; a second click turns the order around.
for (const heading of document.querySelectorAll("#groups th[scope=col] button")) {
  heading.addEventListener("click", () => {
    const cell = heading.parentElement;
    const table = cell.closest("table");
    const column = [...cell.parentElement.children].indexOf(cell);
    const down = cell.getAttribute("aria-sort") !== "descending";
    for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = row => {
      const text = row.children[column].textContent.trim();
      const number = parseFloat(text);
      if (text === "–") return -Infinity;
      return /^[\d.−-]/.test(text) && !Number.isNaN(number) ? number : text;
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => (down ? -1 : 1) * compare(value(a), value(b)));
    table.tBodies[0].append(...rows);
  });
}
